package playbook

import "fmt"

// notYet is the answer to a field that the language has but this version doesn't.
func notYet(name string) string {
	return fmt.Sprintf("%s is part of the language but this version does not have it yet", name)
}
