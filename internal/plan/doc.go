// Package plan is the pure core: from a compiled playbook, a drive's last status and what is observed of its pod it
// computes the next status, what the pod should be, the events to tell, and when to look again.
//
// It has no clock, client, logger or goroutine, and must not get one: the CLI's local engine and the operator run the
// same steps, and its tests replay whole drives in microseconds.
package plan
