package flags

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"spate/internal/nearest"
)

// file is a config file taken apart.
type file struct {
	settings []setting
	tenants  []tenant
}

// readFile reads a config file: one flag a key, spelled with - or _, and a list of tenants.
func readFile(name string, data []byte, ix *index) (*file, error) {
	dec := yaml.NewDecoder(strings.NewReader(string(data)))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return &file{}, nil
	} else if err != nil {
		return nil, mistake("config file %s: %v", name, err)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return &file{}, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, mistake("config file %s: want a list of flag: value, one on each line", name)
	}
	out := &file{}
	err := eachKey(root, func(line int) string { return fmt.Sprintf("config file %s line %d", name, line) }, func(at, key string, val *yaml.Node) error {
		if fold(key) == tenantsKey {
			var err error
			out.tenants, err = readTenants(name, at, val, ix)
			return err
		}
		set, skip, err := fileSetting(at, key, val, ix)
		if err == nil && !skip {
			out.settings = append(out.settings, set)
		}
		return err
	})
	return out, err
}

// eachKey goes through a mapping and says where each key stands; none may stand there twice.
func eachKey(n *yaml.Node, place func(line int) string, visit func(at, key string, val *yaml.Node) error) error {
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		at := place(key.Line)
		if first, again := seen[fold(key.Value)]; again {
			return mistake("%s: %s is already given on line %d", at, key.Value, first)
		}
		seen[fold(key.Value)] = key.Line
		if err := visit(at, key.Value, val); err != nil {
			return err
		}
	}
	return nil
}

// fileSetting reads one key with its value; a null means the key is not given.
func fileSetting(at, key string, val *yaml.Node, ix *index) (set setting, skip bool, err error) {
	name, path, _ := strings.Cut(strings.TrimPrefix(key, "--"), ".")
	e, ok := ix.exact[fold(name)]
	if !ok || e.def.Group == GroupGeneral {
		return set, false, unknownKey(at, name, ok, ix)
	}
	set = setting{entry: e, where: at + ": " + key}
	if path != "" {
		if err := set.dotted(path); err != nil {
			return set, false, err
		}
	}
	for val.Kind == yaml.AliasNode {
		val = val.Alias
	}
	switch {
	case val.Kind == yaml.ScalarNode && val.Tag == "!!null":
		return set, true, nil
	case val.Kind == yaml.ScalarNode:
		set.words = []string{scalar(val)}
	case val.Kind == yaml.SequenceNode && set.keys == nil:
		set.words, err = sequence(&set, val)
	default:
		set.words, err = mapping(&set, val)
	}
	if err != nil {
		err = mistake("%s: %v", set.where, err)
	}
	return set, false, err
}

func unknownKey(at, name string, general bool, ix *index) error {
	if general {
		return mistake("%s: %s cannot be used in a config file", at, name)
	}
	e := mistake("%s: unknown key %q", at, name)
	if best := nearest.Word(name, append(ix.names(), tenantsKey)); best != "" {
		e.Hint = fmt.Sprintf("did you mean %q?", best)
	}
	return e
}

// scalar is the word a user would type for a YAML scalar.
func scalar(n *yaml.Node) string {
	if n.Tag == "!!float" {
		switch strings.ToLower(n.Value) {
		case ".inf", "+.inf":
			return "inf"
		case "-.inf":
			return "-inf"
		}
	}
	return n.Value
}

// sequence turns a list into words, or into one comma-separated word for a flag that takes one.
func sequence(set *setting, n *yaml.Node) ([]string, error) {
	var words []string
	for _, item := range n.Content {
		for item.Kind == yaml.AliasNode {
			item = item.Alias
		}
		if item.Kind != yaml.ScalarNode {
			return nil, errors.New("a list of plain values is wanted")
		}
		words = append(words, scalar(item))
	}
	if set.def.value.arity == many || set.alias != nil && set.alias.Many {
		return words, nil
	}
	if set.def.value.arity != one || set.def.value.path != nil {
		return nil, errors.New("give a single value, not a list")
	}
	return []string{strings.Join(words, ",")}, nil
}

// mapping turns nested keys into what the flag takes: an object, or KEY=VALUE words.
func mapping(set *setting, n *yaml.Node) ([]string, error) {
	pair := set.def.value.pair
	if pair == "json" || set.keys != nil {
		var tree any
		if err := n.Decode(&tree); err != nil {
			return nil, fmt.Errorf("read nested keys: %w", err)
		}
		raw, err := marshal(tree)
		return []string{string(raw)}, err
	}
	if pair == "" || n.Kind != yaml.MappingNode {
		return nil, errors.New("nested keys are not allowed here")
	}
	var words []string
	for i := 0; i+1 < len(n.Content); i += 2 {
		words = append(words, n.Content[i].Value+pair+scalar(n.Content[i+1]))
	}
	return words, nil
}
