// Package e2e owns the tests of the program as users have it: the built binaries, real containers, real images, and
// what is left on the machine afterwards. What one package does alone is that package's to test.
package e2e
