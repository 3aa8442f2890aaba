// Package image owns container images on this machine: finding them (in OCI layouts, archives and registries), a
// content-addressed store of their unpacked layers, and what an image says about the process to run.
//
// It must not mount, run or schedule anything: the local engine does, with the directories that it gets from here.
//
// A store is a directory that any number of processes use at once:
//
//	refs/<hash>.json          which image a name meant when it was last looked up
//	images/<digest>.json      an image: its config and its layers. Whoever uses an image holds a shared flock on this
//	                          file; its modification time is when it was last used
//	layers/<chain id>/        a layer: fs/ is for overlayfs's lowerdir, layer.json says how large it is
//	locks/<chain id>          flocked while that layer is being made
//	locks/prune               flocked: shared while an image is being made, exclusive while some are removed
//	tmp/<random>/             what is being made; flocked by its maker, so that the next Open can tell a dead one's
//
// All that a killed process leaves behind is a directory in tmp. Layers are keyed by their chain id, the digest over all
// layers up to and including it, not by their own digest: what a layer's directory must hold depends on the layers
// below it (see inheritImplied).
package image
