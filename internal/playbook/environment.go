package playbook

import (
	"fmt"
	"reflect"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/ext"
)

// maxCost bounds what an evaluation may cost, in CEL's units: about one for each operation and for each ten bytes of a
// string. It lets an expression walk the 500 items of a play several times, and ends a nest of loops within
// milliseconds.
const maxCost = 1_000_000

// playView, eachView and itemView are what expressions see of a play, of a play with forEach and of its items.
type playView struct {
	Phase    string            `cel:"phase"`
	ExitCode int64             `cel:"exitCode"`
	Outputs  map[string]string `cel:"outputs"`
}

type eachView struct {
	Phase    string              `cel:"phase"`
	ExitCode int64               `cel:"exitCode"`
	Outputs  map[string][]string `cel:"outputs"`
	Items    []*itemView         `cel:"items"`
}

type itemView struct {
	Item     string            `cel:"item"`
	Phase    string            `cel:"phase"`
	ExitCode int64             `cel:"exitCode"`
	Outputs  map[string]string `cel:"outputs"`
}

// The names of variables. A play's variable is named plays.<name>, which package cel reaches only because references to
// it are rewritten to one identifier, whatever the name's characters.
const (
	varParams     = "params"
	varItem       = "item"
	varPlays      = "plays"
	varDrive      = "drive"
	varDriveName  = "drive.name"
	varDrivePhase = "drive.phase"
	playPrefix    = varPlays + "."
)

// base is the environment without a playbook's own variables. It is made once: the functions are the costly part.
var base = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewEnv(
		ext.Strings(), ext.Lists(), ext.Encoders(), ext.Math(), cel.OptionalTypes(),
		ext.NativeTypes(reflect.TypeFor[playView](), reflect.TypeFor[eachView](), reflect.TypeFor[itemView](), ext.ParseStructTags(true)),
		cel.Variable(varParams, cel.MapType(cel.StringType, cel.StringType)),
		cel.Variable(varDriveName, cel.StringType),
		cel.Variable(varDrivePhase, cel.StringType),
		cel.ParserExpressionSizeLimit(MaxExpression),
	)
})

// environment compiles the expressions of one playbook.
type environment struct {
	// plain is for what is decided once for a play, perItem for what can read item.
	plain, perItem *cel.Env
	// plays says of each play whether it has a forEach.
	plays      map[string]bool
	params     map[string]bool
	paramNames []string
	cache      map[cacheKey]*compiled
}

type cacheKey struct {
	source  string
	perItem bool
}

type compiled struct {
	expr *expression
	err  error
}

// newEnvironment declares the plays and params of a playbook. plays says of each play whether it has a forEach.
func newEnvironment(plays map[string]bool, params []string) (*environment, error) {
	env, err := base()
	if err != nil {
		return nil, fmt.Errorf("making the environment of expressions: %w", err)
	}
	e := &environment{plays: plays, paramNames: params, params: map[string]bool{}, cache: map[cacheKey]*compiled{}}
	for _, p := range params {
		e.params[p] = true
	}
	var opts []cel.EnvOption
	for name, each := range plays {
		view := "playbook.playView"
		if each {
			view = "playbook.eachView"
		}
		opts = append(opts, cel.Variable(playPrefix+name, cel.ObjectType(view)))
	}
	if e.plain, err = env.Extend(opts...); err != nil {
		return nil, fmt.Errorf("declaring the plays to expressions: %w", err)
	}
	if e.perItem, err = e.plain.Extend(cel.Variable(varItem, cel.StringType)); err != nil {
		return nil, fmt.Errorf("declaring item to expressions: %w", err)
	}
	return e, nil
}

// compile makes an expression of its source; the same source is compiled once. The error is one sentence for the user.
func (e *environment) compile(source string, perItem bool) (*expression, error) {
	k := cacheKey{source, perItem}
	c, ok := e.cache[k]
	if !ok {
		c = &compiled{}
		c.expr, c.err = e.build(source, perItem)
		e.cache[k] = c
	}
	return c.expr, c.err
}
