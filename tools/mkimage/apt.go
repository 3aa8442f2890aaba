package main

import (
	"bytes"
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"
)

// Apt finds and downloads packages with the machine's own apt and its sources, but as if no package were installed: so
// closures are complete and don't depend on the machine.
type Apt struct {
	cache string
	flags []string
}

// Deb is one package of a closure.
type Deb struct {
	// Name, Version and Arch of the package.
	Name, Version, Arch string
	// File is its name among the downloads.
	File string
}

// listsDir holds what apt-get update fetches. (apt-config could tell another place, but nobody moves it.)
const listsDir = "/var/lib/apt/lists"

// NewApt keeps downloads in the folder cache.
func NewApt(cache string) (*Apt, error) {
	cache, err := filepath.Abs(cache)
	if err != nil {
		return nil, err
	}
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, fmt.Errorf("%s is not on this machine; images are made from Debian packages: use a Debian machine", tool)
		}
	}
	if err := os.MkdirAll(filepath.Join(cache, "archives", "partial"), 0o755); err != nil {
		return nil, fmt.Errorf("making the package cache: %w", err)
	}
	status := filepath.Join(cache, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, fmt.Errorf("making the package cache: %w", err)
	}
	set := []string{
		"Dir::State::status=" + status,
		"Dir::State::extended_states=" + filepath.Join(cache, "extended_states"),
		"Dir::Cache=" + cache,
		"Dir::Cache::archives=" + filepath.Join(cache, "archives"),
		"Dir::Cache::pkgcache=pkgcache.bin",
		"Dir::Cache::srcpkgcache=srcpkgcache.bin",
		"APT::Install-Recommends=false",
		"APT::Keep-Downloaded-Packages=true",
		"APT::Sandbox::User=root", // the user _apt can't write below root's cache folder, and apt warns of it
		"Acquire::Retries=3",
		"DPkg::Lock::Timeout=120",
	}
	a := &Apt{cache: cache}
	for _, s := range set {
		a.flags = append(a.flags, "-o", s)
	}
	return a, nil
}

// Lists tells what apt's package lists are: their names, sizes and times.
func (a *Apt) Lists() ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(listsDir, "*_Packages*"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("apt has no package lists in %s; run: apt-get update", listsDir)
	}
	sort.Strings(paths)
	var lists []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, fmt.Errorf("reading apt's lists: %w", err)
		}
		lists = append(lists, fmt.Sprint(filepath.Base(p), info.Size(), info.ModTime().UTC().Format(time.RFC3339)))
	}
	return lists, nil
}

// Closure tells the packages that installing these would take, in apt's order.
func (a *Apt) Closure(ctx context.Context, packages []string) ([]Deb, error) {
	if len(packages) == 0 {
		return nil, nil
	}
	// apt prints only what it would have to download: nothing is there, in this folder.
	none := filepath.Join(a.cache, "none")
	if err := os.MkdirAll(filepath.Join(none, "partial"), 0o755); err != nil {
		return nil, fmt.Errorf("making the package cache: %w", err)
	}
	args := []string{"-o", "Dir::Cache::archives=" + none, "install", "--print-uris", "-qq", "-y"}
	out, err := a.get(ctx, append(args, packages...)...)
	if err != nil {
		return nil, err
	}
	debs, err := parseURIs(out)
	for _, p := range packages {
		if err == nil && !slices.ContainsFunc(debs, func(d Deb) bool { return d.Name == p }) {
			err = fmt.Errorf("apt-get --print-uris did not name the package %s among %d", p, len(debs))
		}
	}
	return debs, err
}

// parseURIs reads the lines 'uri' file size hash.
func parseURIs(out []byte) ([]Deb, error) {
	var debs []Deb
	for line := range strings.Lines(string(out)) {
		if !strings.HasPrefix(line, "'") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("apt-get --print-uris printed %q: want 'uri' file size", line)
		}
		parts := strings.Split(strings.TrimSuffix(fields[1], ".deb"), "_")
		if len(parts) != 3 {
			return nil, fmt.Errorf("apt-get --print-uris named the file %q: want name_version_arch.deb", fields[1])
		}
		version, err := url.PathUnescape(parts[1])
		if err != nil {
			return nil, fmt.Errorf("apt-get --print-uris named the file %q: %w", fields[1], err)
		}
		debs = append(debs, Deb{Name: parts[0], Version: version, Arch: parts[2], File: fields[1]})
	}
	return debs, nil
}

// Download fetches the closure of the packages; what is there already isn't fetched again. apt checks the hashes.
func (a *Apt) Download(ctx context.Context, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	_, err := a.get(ctx, append([]string{"install", "--download-only", "-qq", "-y"}, packages...)...)
	return err
}

// Path is where the download of a package lies.
func (a *Apt) Path(deb Deb) string { return filepath.Join(a.cache, "archives", deb.File) }

func (a *Apt) get(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "apt-get", append(a.flags, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("apt-get %s: %w: %s; if a package is not found, run: apt-get update",
			strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.Bytes(), nil
}
