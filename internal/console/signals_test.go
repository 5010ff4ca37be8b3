package console

import (
	"bytes"
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// signalled handles signals in fake time; exits are when the process would have been ended.
func signalled(t *testing.T, eager, held bool, play func(s *Signals, send func())) (exits []time.Duration, stderr string) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		arriving, began := make(chan os.Signal, 2), time.Now()
		var said bytes.Buffer
		p := Process{
			Stderr: &said, Interrupts: func() (<-chan os.Signal, func()) { return arriving, func() {} },
			Exit: func(code int) {
				if code != ExitInterrupted {
					t.Errorf("exit code %d", code)
				}
				exits = append(exits, time.Since(began))
			},
		}
		s := p.signals(context.Background(), "draining", eager)
		release := func() {}
		if held {
			release = s.Hold()
		}
		play(s, func() { arriving <- syscall.SIGTERM; synctest.Wait() })
		release()
		s.Done()
		stderr = said.String()
	})
	return exits, stderr
}

// TestFirstSignalDrains: what is in flight goes on, for as long as it takes.
func TestFirstSignalDrains(t *testing.T) {
	exits, said := signalled(t, true, true, func(s *Signals, send func()) {
		if s.Was() {
			t.Error("a signal before any")
		}
		send()
		time.Sleep(time.Hour)
		if s.Context.Err() != nil || !s.Was() {
			t.Errorf("context %v, was %v", s.Context.Err(), s.Was())
		}
		<-s.Stop
	})
	if !strings.Contains(said, "interrupted: draining") {
		t.Errorf("standard error lacks %q:\n%s", "interrupted: draining", said)
	}
	if exits != nil {
		t.Errorf("ended at %v", exits)
	}
}

// TestSecondSignalGivesUp: results are still written, however long that takes; a third ends that.
func TestSecondSignalGivesUp(t *testing.T) {
	exits, _ := signalled(t, true, true, func(s *Signals, send func()) {
		send()
		send()
		<-s.Context.Done()
		time.Sleep(time.Hour) // it writes
	})
	if exits != nil {
		t.Errorf("ended at %v, while results were being written", exits)
	}
	exits, said := signalled(t, true, true, func(_ *Signals, send func()) {
		send()
		send()
		send()
	})
	if len(exits) != 1 || exits[0] != 0 {
		t.Errorf("the third signal ended it at %v, want at once", exits)
	}
	if !strings.Contains(said, "without writing") {
		t.Errorf("standard error lacks %q:\n%s", "without writing", said)
	}
}

// TestSignalInPreparation: there is nothing to write, and something does not listen.
func TestSignalInPreparation(t *testing.T) {
	wait := func(s *Signals, send func()) {
		send()
		<-s.Context.Done()
		<-s.Stop
		time.Sleep(forceSoon + time.Second)
	}
	if exits, _ := signalled(t, true, false, wait); len(exits) == 0 || exits[0] != forceSoon {
		t.Errorf("ended at %v, want %v", exits, forceSoon)
	}
	if exits, _ := signalled(t, true, false, func(s *Signals, send func()) { send(); <-s.Context.Done() }); exits != nil {
		t.Errorf("a command that listens was ended at %v", exits)
	}
	exits, _ := signalled(t, false, false, func(s *Signals, send func()) {
		send()
		time.Sleep(time.Hour)
		if s.Context.Err() != nil {
			t.Error("a sweep was given up by the first signal")
		}
		send()
		time.Sleep(forceAfter + time.Second)
	})
	if want := time.Hour + forceAfter; len(exits) == 0 || exits[0] != want {
		t.Errorf("a sweep was ended at %v, want %v", exits, want)
	}
}
