// Package playbook owns the language: it reads manifests, says everything that is wrong with them and where, and
// compiles a playbook into a Program whose expressions the planner evaluates.
//
// It is pure: bytes and objects in, a Program or Problems out. It must not read files, look at a clock, talk to a
// registry or an API server, or import a planner or an engine.
package playbook
