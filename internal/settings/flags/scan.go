package flags

import (
	"strconv"
	"strings"
)

// setting is one use of a flag: what was written, not yet what it means.
type setting struct {
	entry
	where string   // how errors name it: --flag, or a place in a file
	words []string // none for a switch
	keys  []string // dotted path into a JSON flag
	list  bool     // the path ended in +
}

// scanned is a command line taken apart.
type scanned struct {
	settings []setting
	config   string // --config
	help     bool
	topic    string // --help=TOPIC
}

// scanner walks over the arguments once.
type scanner struct {
	ix   *index
	args []string
	at   int
	out  scanned
}

// scan takes a command line apart by argparse's rules. It looks for help first: whoever asks for help
// wants it whatever else is on the line.
func scan(ix *index, args []string) (scanned, error) {
	for _, a := range args {
		if name, topic, _ := strings.Cut(a, "="); name == "--help" || a == "-h" {
			return scanned{help: true, topic: topic}, nil
		}
	}
	s := &scanner{ix: ix, args: args}
	for s.at < len(args) {
		if err := s.next(); err != nil {
			return scanned{}, err
		}
	}
	return s.out, nil
}

// next reads one flag with its words.
func (s *scanner) next() error {
	arg := s.args[s.at]
	s.at++
	if !s.isFlag(arg) {
		return s.stray(arg)
	}
	name, word, joined := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
	name, path, _ := strings.Cut(name, ".")
	e, bad := s.ix.find(name)
	if bad != nil {
		return bad
	}
	set := setting{entry: e, where: where(name, e.def)}
	if path != "" {
		if err := set.dotted(path); err != nil {
			return err
		}
	}
	if joined {
		set.words = []string{word}
	} else if err := s.takeWords(&set); err != nil {
		return err
	}
	return s.keep(set)
}

// where names a flag as it was typed and, if that is another name for it, what it is.
func where(name string, d *Def) string {
	name = fold(name)
	if strings.HasPrefix(d.Name, name) {
		return "--" + d.Name
	}
	return "--" + name + " (--" + d.Name + ")"
}

func (set *setting) dotted(path string) error {
	if set.def.value.path == nil {
		return mistake("%s.%s: --%s takes no dotted keys, only JSON flags do", set.where, path, set.def.Name)
	}
	path, set.list = strings.CutSuffix(path, "+")
	set.keys = strings.Split(path, ".")
	for _, k := range set.keys {
		if k == "" {
			return mistake("%s.%s: a dotted key is empty", set.where, path)
		}
	}
	set.where += "." + path
	return nil
}

// takeWords reads as many of the following arguments as the flag takes.
func (s *scanner) takeWords(set *setting) error {
	v := set.def.value
	several := v.arity == many && set.keys == nil || set.alias != nil && set.alias.Many
	if !several && v.arity != one {
		return nil // a switch
	}
	for s.at < len(s.args) && !s.isFlag(s.args[s.at]) {
		set.words = append(set.words, s.args[s.at])
		s.at++
		if !several {
			return nil
		}
	}
	if len(set.words) == 0 && (!several || !v.empty) {
		return s.missing(set)
	}
	return nil
}

// missing explains a flag without its value.
func (s *scanner) missing(set *setting) error {
	e := mistake("%s needs a value (%s)", set.where, set.def.Type())
	if s.at < len(s.args) {
		e.Hint = strconv.Quote(s.args[s.at]) + " looks like a flag; write " + set.where + "=... if it is the value"
	}
	return e
}

// keep files a setting away; --config is for the reader itself.
func (s *scanner) keep(set setting) error {
	if set.def.Name == "help" {
		s.out.help = true
		return nil
	}
	if set.def.Name != "config" {
		s.out.settings = append(s.out.settings, set)
		return nil
	}
	if s.out.config != "" {
		return mistake("--config is given twice")
	}
	if s.out.config = set.words[0]; s.out.config == "" {
		return mistake("--config: no file named")
	}
	return nil
}

// isFlag tells flags from values as argparse does: a dash, and not a negative number or a text with
// spaces.
func (s *scanner) isFlag(arg string) bool {
	if len(arg) < 2 || arg[0] != '-' {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
	name, _, _ = strings.Cut(name, ".")
	if _, ok := s.ix.exact[fold(name)]; ok {
		return true
	}
	if _, err := strconv.ParseFloat(arg, 64); err == nil {
		return false
	}
	return !strings.Contains(name, " ")
}

// stray explains a word that belongs to no flag.
func (s *scanner) stray(word string) error {
	e := mistake("unexpected argument %q", word)
	if n := len(s.out.settings); n > 0 {
		last := s.out.settings[n-1]
		switch last.def.value.arity {
		case none, tri:
			e.Hint = last.where + " is a switch and takes no value"
		case one:
			e.Hint = last.where + " takes one value; quote it if it contains spaces"
		case many:
			e.Hint = last.where + "=... takes one value; leave the = out to give several"
		}
	}
	return e
}
