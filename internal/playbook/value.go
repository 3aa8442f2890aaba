package playbook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// toText is a value as it stands in a string: strings as they are, lists and maps as JSON, all else as CEL's string().
func toText(val ref.Val) (string, error) {
	switch v := val.(type) {
	case types.String:
		return string(v), nil
	case types.Bytes:
		if !utf8.Valid(v) {
			return "", errors.New("its bytes are not UTF-8 text")
		}
		return string(v), nil
	case traits.Lister, traits.Mapper:
		return toJSON(v)
	}
	if s, ok := val.ConvertToType(types.StringType).(types.String); ok {
		return string(s), nil
	}
	return "", fmt.Errorf("a value of type %s can't stand in a string", val.Type().TypeName())
}

// toJSON is a list or a map in one line, keys in order.
func toJSON(val ref.Val) (string, error) {
	plain, err := toPlain(val)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(plain); err != nil {
		return "", fmt.Errorf("its value has no form in JSON: %w", err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// toPlain makes of a value what package json can write.
func toPlain(val ref.Val) (any, error) {
	switch v := val.(type) {
	case types.Null:
		return nil, nil
	case types.Bool, types.Int, types.Uint, types.Double:
		return v.Value(), nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			elem, err := toPlain(it.Next())
			if err != nil {
				return nil, err
			}
			list = append(list, elem)
		}
		return list, nil
	case traits.Mapper:
		object := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			k := it.Next()
			name, err := toText(k)
			if err != nil {
				return nil, err
			}
			if object[name], err = toPlain(v.Get(k)); err != nil {
				return nil, err
			}
		}
		return object, nil
	}
	return toText(val)
}

// toItems is the list of a forEach.
func toItems(val ref.Val) ([]string, error) {
	list, ok := val.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("it must yield a list, not a value of type %s", val.Type().TypeName())
	}
	if n, ok := list.Size().Value().(int64); ok && n > MaxItems {
		return nil, fmt.Errorf("its list has %d items, at most %d are allowed", n, MaxItems)
	}
	items := []string{}
	for it := list.Iterator(); it.HasNext() == types.True; {
		elem := it.Next()
		switch elem.(type) {
		case types.String, types.Int, types.Uint, types.Double, types.Bool:
		default:
			return nil, fmt.Errorf("item %d of its list is of type %s; strings, numbers and bools are allowed",
				len(items), elem.Type().TypeName())
		}
		s, err := toText(elem)
		if err != nil {
			return nil, err
		}
		items = append(items, s)
	}
	return items, nil
}
