package v1alpha1

import (
	"encoding/json"
	"fmt"
)

// ForEach is either a literal list of strings or a CEL expression that yields a list. Exactly one of the fields is set.
//
// In YAML it is written as the list or the string itself.
// +kubebuilder:validation:XPreserveUnknownFields
type ForEach struct {
	// Items is the literal list. Items can hold ${{ }}.
	Items []string `json:"-"`
	// Expression is CEL that yields a list of strings, numbers or bools; it is evaluated once, when the play's needs have ended.
	Expression string `json:"-"`
}

// MarshalJSON writes the list or the string.
func (f ForEach) MarshalJSON() ([]byte, error) {
	if f.Expression != "" {
		return json.Marshal(f.Expression)
	}
	if f.Items == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(f.Items)
}

// UnmarshalJSON reads a list or a string.
func (f *ForEach) UnmarshalJSON(data []byte) error {
	*f = ForEach{}
	if json.Unmarshal(data, &f.Expression) == nil {
		return nil
	}
	if err := json.Unmarshal(data, &f.Items); err != nil {
		return fmt.Errorf("forEach must be a list of strings or a string with an expression: %w", err)
	}
	return nil
}
