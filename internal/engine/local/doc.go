// Package local owns the engine that runs a drive's pod on this machine: OCI containers by runc, no daemon.
//
// A pod is a set of network, ipc and uts namespaces that this process holds, a scratch and a control directory, and a
// cgroup. A slot is the container that runs in it now; substituting it is one `runc run` of a fresh bundle. The package
// decides nothing about the drive.
package local
