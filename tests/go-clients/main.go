// Command go-clients takes the providers' own Go clients through the calls that the operator makes, against
// whatever answers at the base URLs of the environment. It says what does not fit and then exits with 1.
//
// It shares no code and no reading of the documentation with the operator or the simulation: that is its use.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Longer than any call against loopback takes.
const timeLimit = time.Minute

// checker counts what does not fit.
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

// fails wants an error that names all the given parts (a status, a code, a message).
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
