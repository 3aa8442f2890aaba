// Command mkimage builds small container images from Debian packages, into one OCI layout.
//
//	mkimage [-o build/images] [-cache DIR] SPEC
//
// SPEC is a YAML file that says which packages go into which image (see Spec). No container engine and no registry is
// needed: apt finds and downloads the packages, whatever of them the machine itself has installed, and mkimage puts
// their files into layers. The same packages give the same digests. A layout that holds what SPEC asks for is left alone.
//
// It knows nothing of nohuddle, and must not. Maintainer scripts are not run: what an image needs of their work (a
// link that update-alternatives would make, say) is written in SPEC.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("mkimage: ")
	out := flag.String("o", "build/images", "the OCI layout to write")
	cache := flag.String("cache", "", "folder that keeps the downloaded packages (default: nohuddle/debs in the user's cache folder)")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Usage: mkimage [-o DIR] [-cache DIR] SPEC")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *out, *cache); err != nil {
		log.Print(err)
		os.Exit(1) //nolint:gocritic // nothing is left for the deferred stop to do
	}
}

// run makes the layout out hold what the spec at specPath asks for.
func run(ctx context.Context, specPath, out, cache string) error {
	spec, err := ReadSpec(specPath)
	if err != nil {
		return err
	}
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return fmt.Errorf("no folder to keep packages in: %w; name one with -cache", err)
		}
		cache = filepath.Join(user, "nohuddle", "debs")
	}
	begin := time.Now()
	apt, err := NewApt(cache)
	if err != nil {
		return err
	}
	want := Keys{}
	if want.Inputs, err = inputsKey(spec, apt); err != nil {
		return err
	}
	have := ReadKeys(out)
	if have.Inputs == want.Inputs {
		return nil
	}

	closures, err := resolve(ctx, spec, apt)
	if err != nil {
		return err
	}
	want.Packages = packagesKey(spec, closures)
	if have.Packages == want.Packages {
		return WriteKeys(out, want)
	}
	if err := build(ctx, spec, apt, closures, out, want); err != nil {
		return err
	}
	log.Printf("%d images in %s, made in %s", len(spec.Images), out, time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// resolve finds the packages of each image, by the image's name, and checks their versions.
func resolve(ctx context.Context, spec *Spec, apt *Apt) (map[string][]Deb, error) {
	closures := make(map[string][]Deb, len(spec.Images))
	for _, img := range spec.Images {
		debs, err := apt.Closure(ctx, img.closurePackages(spec))
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", img.Name, err)
		}
		if err := img.checkVersion(debs); err != nil {
			return nil, err
		}
		closures[img.Name] = without(debs, img.Without)
	}
	return closures, nil
}

// build downloads the packages and writes the layout. The old layout stands until the new one is complete.
func build(ctx context.Context, spec *Spec, apt *Apt, closures map[string][]Deb, out string, keys Keys) error {
	layout, err := NewLayout(out)
	if err != nil {
		return err
	}
	defer layout.Discard()
	trees := make(map[string]*Tree, len(spec.Images))
	for _, img := range spec.Images {
		if err := apt.Download(ctx, img.closurePackages(spec)); err != nil {
			return fmt.Errorf("image %s: %w", img.Name, err)
		}
		debs := closures[img.Name]
		if img.From != "" {
			debs = subtract(debs, closures[img.From])
		}
		tree, err := img.tree(ctx, apt, debs, trees[img.From])
		if err != nil {
			return fmt.Errorf("image %s: %w", img.Name, err)
		}
		trees[img.Name] = tree
		if err := layout.Add(spec.Reference(img), img, tree); err != nil {
			return fmt.Errorf("image %s: %w", img.Name, err)
		}
	}
	return layout.Commit(keys)
}
