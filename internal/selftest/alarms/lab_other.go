//go:build !linux

package alarms

import (
	"errors"
	"os/exec"
)

func supported() error {
	return errors.New("this test stops processes and chooses their cores, which it can do on Linux only")
}

func ownCores() ([]int, error) { return nil, supported() }

func startOn([]int, *exec.Cmd) error { return supported() }

func (h *harm) do(int, []int, string, <-chan struct{}) {}
