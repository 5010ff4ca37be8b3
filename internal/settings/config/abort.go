package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Abort says when failed requests end a run. The zero value is auto: only where the run cannot come to
// anything any more. In files it is the text a user types.
type Abort struct {
	Off   bool
	Run   int     // failures in a row
	Share float64 // failed of those that ended, 0 to 1
}

var errAbort = errors.New("want auto, off, a number of failures in a row such as 20, a share such as 10%, or both as 20,10%")

// ParseAbort reads a bound on failures.
func ParseAbort(text string) (Abort, error) {
	switch strings.TrimSpace(text) {
	case "auto":
		return Abort{}, nil
	case "off":
		return Abort{Off: true}, nil
	}
	var a Abort
	for part := range strings.SplitSeq(text, ",") {
		if err := a.add(strings.TrimSpace(part)); err != nil {
			return Abort{}, err
		}
	}
	return a, nil
}

func (a *Abort) add(part string) error {
	if share, ok := strings.CutSuffix(part, "%"); ok {
		f, err := strconv.ParseFloat(strings.TrimSpace(share), 64)
		switch {
		case err != nil || a.Share > 0:
			return errAbort
		case !(f > 0 && f <= 100):
			return fmt.Errorf("%s is not a share of failed requests: want more than 0%% and at most 100%%", part)
		}
		a.Share = f / 100
		return nil
	}
	n, err := strconv.Atoi(part)
	switch {
	case err != nil && strings.Contains(part, "."):
		return fmt.Errorf("%s is not a whole number of failures in a row; a share has a percent sign, such as 10%%", part)
	case err != nil || a.Run > 0:
		return errAbort
	case n < 1:
		return fmt.Errorf("%d failures in a row is not possible: want 1 or more, or off", n)
	}
	a.Run = n
	return nil
}

// String is the bound as typed.
func (a Abort) String() string {
	var parts []string
	if a.Run > 0 {
		parts = append(parts, strconv.Itoa(a.Run))
	}
	if a.Share > 0 {
		parts = append(parts, strconv.FormatFloat(a.Share*100, 'g', -1, 64)+"%")
	}
	switch {
	case a.Off:
		return "off"
	case parts == nil:
		return "auto"
	}
	return strings.Join(parts, ",")
}

// MarshalText writes the bound as typed.
func (a Abort) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText reads it back.
func (a *Abort) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAbort(string(text))
	return err
}
