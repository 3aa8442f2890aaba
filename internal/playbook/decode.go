package playbook

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nohuddle/nohuddle/api/v1alpha1"
)

const (
	// maxNodes bounds what aliases can make of a file: no honest manifest of MaxFile bytes comes near it.
	maxNodes = 500_000
	// maxDepth bounds how deep values can be nested.
	maxDepth = 64
)

// decoder fills Go values from YAML nodes and remembers where each field stood.
type decoder struct {
	problems  Problems
	nodes     map[string]*yaml.Node // by path
	visited   int
	exhausted bool
}

func newDecoder() *decoder { return &decoder{nodes: map[string]*yaml.Node{}} }

func (d *decoder) has(path string) bool { return d.nodes[path] != nil }

func (d *decoder) problem(at *yaml.Node, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{Line: at.Line, Column: at.Column, Path: path, Message: fmt.Sprintf(format, args...)})
}

// at adds a problem with a field, wherever that is.
func (d *decoder) at(path, format string, args ...any) {
	p := Problem{Path: path, Message: fmt.Sprintf(format, args...)}
	p.Line, p.Column = d.position(path, 0)
	d.problems = append(d.problems, p)
}

// position is where a field stands, or the nearest one around it that the file has. within counts line ends in the
// field's text before the spot.
func (d *decoder) position(path string, within int) (line, column int) {
	exact := true
	for {
		if n := d.nodes[path]; n != nil {
			switch {
			case !exact:
			case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
				return n.Line + 1 + within, 1 // the text begins on the line after the indicator
			case within > 0:
				return n.Line + within, 1
			}
			return n.Line, n.Column
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return 1, 1
		}
		path, exact = path[:cut], false
	}
}

// decode fills v from the file's only document.
func (d *decoder) decode(root *yaml.Node, v reflect.Value) { d.value(root, v, "", 0) }

// spend counts a node; false when there are too many, which is told once.
func (d *decoder) spend(n *yaml.Node, path string, depth int) bool {
	if d.exhausted {
		return false
	}
	d.visited++
	switch {
	case d.visited > maxNodes:
		d.problem(n, path, "aliases make more than %d values of this file: write less with anchors", maxNodes)
	case depth > maxDepth:
		d.problem(n, path, "values are nested more than %d deep", maxDepth)
	default:
		return true
	}
	d.exhausted = true
	return false
}

// value fills v from a node.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, depth int) {
	if !d.spend(n, path, depth) {
		return
	}
	if path != "" && d.nodes[path] == nil {
		d.nodes[path] = n
	}
	if n.Kind == yaml.AliasNode {
		d.value(n.Alias, v, path, depth+1)
		return
	}
	if isNull(n) {
		return // like an absent field, as in Kubernetes
	}
	if v.Kind() == reflect.Pointer {
		p := reflect.New(v.Type().Elem())
		d.value(n, p.Elem(), path, depth+1)
		v.Set(p)
		return
	}
	if d.special(n, v, path, depth) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path, depth)
	case reflect.Map:
		d.mapping(n, v, path, depth)
	case reflect.Slice:
		d.list(n, v, path, depth)
	default:
		d.scalar(n, v, path)
	}
}

// special fills the types that have a form of their own.
func (d *decoder) special(n *yaml.Node, v reflect.Value, path string, depth int) bool {
	switch v.Interface().(type) {
	case resource.Quantity:
		q, err := resource.ParseQuantity(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			d.problem(n, path, "%s is not a quantity such as 512Mi, 2 or 500m", shown(n))
			return true
		}
		if q.Sign() < 0 {
			d.problem(n, path, "%s is below 0", shown(n))
		}
		v.Set(reflect.ValueOf(q))
	case metav1.Duration:
		var dur metav1.Duration
		text, _ := json.Marshal(n.Value)
		if n.Kind != yaml.ScalarNode || json.Unmarshal(text, &dur) != nil {
			d.problem(n, path, "%s is not a duration such as 90s, 10m or 1h30m", shown(n))
			return true
		}
		v.Set(reflect.ValueOf(dur))
	case v1alpha1.ForEach:
		d.forEach(n, v, path, depth)
	case v1alpha1.DriveStatus, metav1.Time: // what a drive that was printed brings along; it is not ours to believe
	default:
		return false
	}
	return true
}

func (d *decoder) forEach(n *yaml.Node, v reflect.Value, path string, depth int) {
	each := v1alpha1.ForEach{}
	switch {
	case n.Kind == yaml.SequenceNode:
		d.list(n, reflect.ValueOf(&each.Items).Elem(), path, depth)
		if each.Items == nil {
			each.Items = []string{}
		}
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" && strings.TrimSpace(n.Value) != "":
		each.Expression = n.Value
	default:
		d.problem(n, path, "it is %s, but must be a list of strings, or an expression that yields one", kindOf(n))
	}
	v.Set(reflect.ValueOf(each))
}

// structure fills a struct by the names of its json tags.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "it is %s, but must have fields", kindOf(n))
		return
	}
	fields := fieldsOf(v.Type())
	d.pairs(n, path, depth, func(k, val *yaml.Node) {
		at := field(path, k.Value)
		i, ok := fields[k.Value]
		if !ok {
			if d.nodes[at] == nil {
				d.nodes[at] = k
			}
			d.problem(k, at, "%s", unknown(v.Type(), k.Value, fields))
			return
		}
		d.value(val, v.FieldByIndex(i), at, depth+1)
	})
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "it is %s, but must be a map", kindOf(n))
		return
	}
	out := reflect.MakeMap(v.Type())
	d.pairs(n, path, depth, func(k, val *yaml.Node) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(val, element, key(path, k.Value), depth+1)
		out.SetMapIndex(reflect.ValueOf(k.Value).Convert(v.Type().Key()), element)
	})
	v.Set(out)
}

// pairs calls f for each key of a mapping; those that << brings in come last, and only where there is none of their name.
func (d *decoder) pairs(n *yaml.Node, path string, depth int, f func(k, v *yaml.Node)) {
	seen := map[string]*yaml.Node{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		switch first := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode:
			d.problem(k, path, "a key must be a string, not %s", kindOf(k))
		case k.ShortTag() == "!!merge":
			merged = append(merged, v)
		case first != nil:
			d.problem(k, field(path, k.Value), "it is set twice, first in line %d", first.Line)
		default:
			seen[k.Value] = k
			f(k, v)
		}
	}
	for _, m := range merged {
		d.merged(m, path, depth+1, func(k, v *yaml.Node) {
			if seen[k.Value] == nil {
				seen[k.Value] = k
				f(k, v)
			}
		})
	}
}

// merged calls f for each key of what << names.
func (d *decoder) merged(n *yaml.Node, path string, depth int, f func(k, v *yaml.Node)) {
	if !d.spend(n, path, depth) {
		return
	}
	switch n.Kind {
	case yaml.AliasNode:
		d.merged(n.Alias, path, depth+1, f)
	case yaml.MappingNode:
		d.pairs(n, path, depth+1, f)
	case yaml.SequenceNode:
		for _, each := range n.Content {
			d.merged(each, path, depth+1, f)
		}
	default:
		d.problem(n, path, "<< must name a map")
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.SequenceNode {
		d.problem(n, path, "it is %s, but must be a list", kindOf(n))
		return
	}
	out := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, each := range n.Content {
		at := index(path, i)
		if isNull(each) {
			d.problem(each, at, "it is empty")
			continue
		}
		d.value(each, out.Index(i), at, depth+1)
	}
	v.Set(out)
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	tag := n.ShortTag()
	switch v.Kind() {
	case reflect.String:
		switch {
		case n.Kind != yaml.ScalarNode:
			d.problem(n, path, "it is %s, but must be a string", kindOf(n))
		case tag != "!!str":
			d.problem(n, path, "it is %s, but must be a string: write %q", kindOf(n), n.Value)
		default:
			v.SetString(n.Value)
		}
	case reflect.Bool:
		b, err := strconv.ParseBool(n.Value)
		if tag != "!!bool" || err != nil {
			d.problem(n, path, "it is %s, but must be true or false", shown(n))
			return
		}
		v.SetBool(b)
	case reflect.Int32, reflect.Int64:
		i, err := strconv.ParseInt(n.Value, 0, 64)
		if tag != "!!int" || err != nil || v.Kind() == reflect.Int32 && (i < math.MinInt32 || i > math.MaxInt32) {
			d.problem(n, path, "it is %s, but must be a whole number", shown(n))
			return
		}
		v.SetInt(i)
	default:
		d.problem(n, path, "it can't be set")
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindOf is what a node is, for people.
func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return kindOf(n.Alias)
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "a bool"
	case "!!null":
		return "empty"
	case "!!timestamp":
		return "a date"
	}
	return "a string"
}

// shown is a scalar's text, or what the node is otherwise.
func shown(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return quoted(n.Value)
	}
	return kindOf(n)
}
