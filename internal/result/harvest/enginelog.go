package harvest

import "spate/internal/host/enginelog"

// EngineSample is one stats line of a vLLM engine, numbers as printed.
type EngineSample = enginelog.Sample

// num is a number as JSON takes it, so that what was printed can be passed on.
const num = enginelog.Number
