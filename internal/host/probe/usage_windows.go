package probe

import (
	"time"

	"golang.org/x/sys/windows"
)

func readUsage() usage {
	var created, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user); err != nil {
		return usage{}
	}
	length := func(f windows.Filetime) time.Duration {
		return time.Duration(int64(f.HighDateTime)<<32|int64(f.LowDateTime)) * 100 // counted in 100 ns
	}
	return usage{user: length(user), sys: length(kernel)}
}
