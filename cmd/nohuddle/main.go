// Command nohuddle runs playbooks on this machine.
package main

import (
	"os"

	"github.com/nohuddle/nohuddle/internal/cli"
)

// version is set by the linker.
var version = "unknown"

func main() { os.Exit(cli.Main(os.Args[1:], version)) }
