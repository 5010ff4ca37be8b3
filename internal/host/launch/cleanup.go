package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// afterFlag is how a guard is told what to run at the end: the command as one word, before that of the server.
const afterFlag = "--after"

// cleanFor is how long a command that cleans up may take.
const cleanFor = time.Minute

// guardArgs hand a command that cleans up to a guard.
func guardArgs(cleanup []string) []string {
	if len(cleanup) == 0 {
		return nil
	}
	return []string{afterFlag, Words(cleanup)}
}

// guardWords are the command that cleans up and that of the server, as a guard was told them.
func guardWords(args []string) (cleanup, command []string) {
	if len(args) < 2 || args[0] != afterFlag {
		return nil, args
	}
	words, err := Split(args[1])
	if err != nil {
		return nil, args[2:]
	}
	return words, args[2:]
}

// cleanUp ends what a server left elsewhere. What it says goes where the server's words go; that the port is
// free is checked afterwards, whatever it says.
func cleanUp(command, env []string, out io.Writer) {
	if len(command) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanFor)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // the user's own command
	cmd.Stdout, cmd.Stderr, cmd.Env = out, out, append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		_, _ = fmt.Fprintf(out, "%s: %v\n", Words(command), err) // nobody else is there to be told
	}
}
