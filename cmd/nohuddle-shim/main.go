// Command nohuddle-shim is the first process of every slot. Engines start it; people don't.
package main

import (
	"os"

	"github.com/nohuddle/nohuddle/internal/shim"
)

func main() { os.Exit(shim.Main(os.Args, os.Environ())) }
