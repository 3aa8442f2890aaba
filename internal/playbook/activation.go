package playbook

import "cel.dev/cel-go/cel"

// activation gives an expression its variables.
type activation struct {
	program *Program
	scope   Scope
	item    *string
}

// ResolveName is the value of a variable.
func (a *activation) ResolveName(name string) (any, bool) {
	switch name {
	case varParams:
		return a.program.Params, true
	case varItem:
		if a.item == nil {
			return nil, false
		}
		return *a.item, true
	case varDriveName:
		return a.scope.DriveName(), true
	case varDrivePhase:
		return a.scope.DrivePhase(), true
	}
	if len(name) > len(playPrefix) && name[:len(playPrefix)] == playPrefix {
		return a.view(name[len(playPrefix):])
	}
	return nil, false
}

// Parent is none: there is one scope only.
func (a *activation) Parent() cel.Activation { return nil }

func (a *activation) value(play string) PlayValue {
	i, ok := a.program.Index(play)
	if !ok {
		return PlayValue{}
	}
	return a.scope.Play(i)
}

// view is a play as expressions see it.
func (a *activation) view(play string) (any, bool) {
	i, ok := a.program.Index(play)
	if !ok {
		return nil, false
	}
	v := a.scope.Play(i)
	if a.program.Plays[i].Spec.ForEach == nil {
		return &playView{Phase: v.Phase, ExitCode: v.ExitCode, Outputs: v.Outputs}, true
	}
	each := &eachView{Phase: v.Phase, ExitCode: v.ExitCode, Outputs: eachOutputs(v.Items), Items: []*itemView{}}
	for _, it := range v.Items {
		each.Items = append(each.Items, &itemView{Item: it.Item, Phase: it.Phase, ExitCode: it.ExitCode, Outputs: it.Outputs})
	}
	return each, true
}

// eachOutputs gathers the outputs of items: for each key that any of them has, a list in the order of the items, with ""
// for those that haven't.
func eachOutputs(items []PlayValue) map[string][]string {
	out := map[string][]string{}
	for i, it := range items {
		for k, v := range it.Outputs {
			if out[k] == nil {
				out[k] = make([]string, len(items))
			}
			out[k][i] = v
		}
	}
	return out
}
