package probe

import "os"

func (h *Host) readSystem() { h.readLinux(os.DirFS("/")) }
