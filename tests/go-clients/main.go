// Command go-clients makes the operator's calls with the providers' own Go clients, against the servers at the
// environment's base URLs. It reports every mismatch, and then exits with 1.
//
// It shares neither code nor interpretation of the documentation with the operator or the simulation. That makes it a
// check.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Longer than any call on loopback takes.
const timeLimit = time.Minute

// checker counts mismatches.
type checker struct{ failures int }

func (c *checker) that(holds bool, format string, arguments ...any) {
	if !holds {
		c.failures++
		fmt.Fprintf(os.Stderr, "mismatch: "+format+"\n", arguments...)
	}
}

// ok reports an unexpected error and says whether the step can go on.
func (c *checker) ok(err error, step string) bool {
	c.that(err == nil, "%s: %v", step, err)
	return err == nil
}

// fails expects an error that contains all the given parts (a status, a code, a message).
func (c *checker) fails(err error, step string, parts ...string) {
	if err == nil {
		c.that(false, "%s: no error", step)
		return
	}
	for _, part := range parts {
		c.that(strings.Contains(err.Error(), part), "%s: %q is not in: %v", step, part, err)
	}
}

func env(name string) string {
	value := os.Getenv(name)
	if value == "" {
		fmt.Fprintln(os.Stderr, name+" is not set")
		os.Exit(2)
	}
	return value
}

func envInt(name string) int {
	value, err := strconv.Atoi(env(name))
	if err != nil {
		fmt.Fprintln(os.Stderr, name+" is not a number")
		os.Exit(2)
	}
	return value
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
	defer cancel()
	c := &checker{}
	digitalOcean(ctx, c)
	cloudflare(ctx, c)
	if c.failures > 0 {
		fmt.Fprintf(os.Stderr, "%d mismatches\n", c.failures)
		os.Exit(1)
	}
	fmt.Println("both clients are content")
}
