package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"spate/internal/send/client"
	"spate/internal/settings/config"
)

// ResetCache asks every server of a run to forget the prompts it has seen, with the run's headers and TLS settings:
// vLLM at one path, SGLang at another. Redirects are not followed: they would take the headers elsewhere.
func ResetCache(ctx context.Context, cfg *config.Bench, getenv func(string) string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t, err := newTarget(cfg, getenv)
	if err != nil {
		return err
	}
	for _, base := range t.client.BaseURLs {
		one := t.client
		one.BaseURLs = []string{base}
		if err := resetOne(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

func resetOne(ctx context.Context, cfg client.Config) error {
	c, err := client.NewControl(cfg)
	if err != nil {
		return err
	}
	defer c.Close()
	var refused *client.StatusError
	for _, path := range []string{"/reset_prefix_cache", "/flush_cache"} {
		_, err := c.Post(ctx, path, nil)
		if err == nil {
			return nil
		}
		if !errors.As(err, &refused) {
			return fmt.Errorf("reset the prefix cache: %w", err)
		}
	}
	return fmt.Errorf("the server does not reset its prefix cache (HTTP %d): vLLM does with VLLM_SERVER_DEV_MODE=1, "+
		"and --cache salt works without the server's help", refused.Status)
}
