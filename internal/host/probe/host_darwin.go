package probe

import "golang.org/x/sys/unix"

func (h *Host) readSystem() {
	h.Kernel, _ = unix.Sysctl("kern.osrelease")
	h.CPU, _ = unix.Sysctl("machdep.cpu.brand_string")
	h.Memory, _ = unix.SysctlUint64("hw.memsize")
}
