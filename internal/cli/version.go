package cli

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Version is the release this source is, or becomes.
const Version = "0.1.0"

// versionText is one line: release, commit, toolchain, platform.
func versionText() string {
	return fmt.Sprintf("spate %s (%s, %s %s/%s)", Version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// commit is what the build recorded of its source.
func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown commit"
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+changes"
		}
	}
	if rev == "" {
		return "unknown commit"
	}
	return "commit " + rev + dirty
}

func newVersion(p Process) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Long:  "Print the version, the commit it was built from and the Go release.",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return writeVersion(p.Stdout) },
	}
}

func writeVersion(w io.Writer) error {
	if _, err := fmt.Fprintln(w, versionText()); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}
