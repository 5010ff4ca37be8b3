package flags

import "spate/internal/settings/config"

// repeatFlags ask for several runs of one setting, or of several settings in turn.
func repeatFlags(b *config.Bench) []Def {
	r := &b.Repeat
	return []Def{
		{
			Name: "repeat", Group: GroupRepeat, Main: true, Default: "1", value: integer(&r.Times), Meta: "N",
			Help: "make this many runs, each in its own folder, and report how much the figures vary",
			Also: also("num-runs", "num-profile-runs"),
		},
		{
			Name: "interleave", Group: GroupRepeat, Main: true, value: arms(&r.Arms),
			Help: "measure these settings in turn (A B B A ...) and compare them with the first: A=http://one:8000,B=http://two:8000, " +
				"or A=,B='--max-concurrency 8'; with equal settings, spate learns how much noise there is here",
		},
		{
			Name: "noise-file", Group: GroupRepeat, value: str(&r.NoiseFile), Meta: "FILE",
			Help: "where the noise of equal runs is kept; by default in the user's state folder",
		},
	}
}

// arms takes several arms in one word, or one a word.
func arms(p *[]config.Arm) *value {
	v := listed(p, "ARMS", func(string) (config.Arm, error) { return config.Arm{}, nil }, config.Arm.String)
	v.set = func(s string) error {
		more, err := config.ParseArms(s)
		*p = append(*p, more...)
		return err
	}
	return v
}
