//go:build !linux && !darwin

package probe

// readSystem has nothing to add where no system calls are known: the fields stay empty.
func (h *Host) readSystem() {}
