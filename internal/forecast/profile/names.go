package profile

import "strings"

// named gives the shipped profiles the names people use: model, GPUs, engine, and what else tells two of them apart.
// A profile's file keeps the name of its group in the rows file it was fitted to, which stays valid everywhere.
var named = map[string]string{
	"000-test1":           "qwen2-7b-2xA100-40GB-vllm0.10-2nodes",
	"000-test2":           "qwen2-7b-2xA100-80GB-vllm0.10",
	"000-test3":           "qwen2-7b-2xA100-80GB-vllm0.10-kv1192k",
	"001-plain":           "qwen2.5-7b-int4-1xA10-vllm0.6",
	"001-chunked":         "qwen2.5-7b-int4-1xA10-vllm0.6-chunked",
	"001-rdma1":           "qwen2.5-7b-int4-2xA10-vllm0.6-disaggregated-rdma",
	"001-rdma2":           "qwen2.5-7b-int4-2xA10-vllm0.6-disaggregated-rdma-2nics",
	"001-tcp":             "qwen2.5-7b-int4-2xA10-vllm0.6-disaggregated-tcp",
	"002":                 "unknown-model-vllm",
	"003-Qwen3-8B":        "qwen3-8b-1xA100-80GB-vllm0.10",
	"003-Qwen3-32B":       "qwen3-32b-2xA100-80GB-vllm0.10",
	"003-Qwen3-30B-A3B":   "qwen3-30b-a3b-2xA100-80GB-vllm0.10",
	"003-Qwen3-235B-A22B": "qwen3-235b-a22b-8xA100-80GB-vllm0.10",
	"003-gpt-oss-20b":     "gpt-oss-20b-1xA100-80GB-vllm0.10",
	"003-gpt-oss-120b":    "gpt-oss-120b-2xA100-80GB-vllm0.10",
}

// fullName is the name people use for a profile that may be given by its alias.
func fullName(name string) string {
	for alias, full := range named {
		if strings.EqualFold(alias, name) {
			return full
		}
	}
	return name
}

// Alias is the other name of a shipped profile, that of its group in the reference reports; other profiles have none.
func (p *Profile) Alias() string {
	for alias, full := range named {
		if full == p.Name {
			return alias
		}
	}
	return ""
}

// Title is the name with its alias.
func (p *Profile) Title() string {
	if alias := p.Alias(); alias != "" {
		return p.Name + " (" + alias + ")"
	}
	return p.Name
}

// Caption is the profile's name, and that it is not calibrated where it is not.
func (p *Profile) Caption() string {
	if p.Calibrated {
		return p.Name
	}
	return p.Name + " (not calibrated)"
}
