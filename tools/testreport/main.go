// Command testreport reads what `go test -json` writes.
//
//	go test -json ./... | tee bin/unit.json | testreport
//	testreport bin/unit.json bin/e2e.json
//	testreport -again bin/unit.json
//
// Without a file it follows the tests: it prints a line when a package or a long
// test ends, and everything that a package printed that failed. With files it
// prints the slowest packages and tests of all of them, and what failed; a package
// that failed in one file and passed in a later one is named as unsteady. It exits
// with 1 when a test or a build failed, or when nothing was tested. With -again it
// prints the packages and tests that are worth a second try.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	most := flag.Int("most", 20, "how many of the slowest packages and tests to print")
	again := flag.Bool("again", false, "print what to try once more, a package and a pattern of tests a line")
	flag.Parse()
	failed, err := run(flag.Args(), *most, *again, os.Stdin, os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	if failed {
		os.Exit(1)
	}
}

func run(files []string, most int, again bool, in io.Reader, out io.Writer) (failed bool, err error) {
	r := newReport()
	if len(files) == 0 {
		r.progress = out
		err = r.read(in)
	}
	for _, file := range files {
		err = errors.Join(err, r.readFile(file))
	}
	if err != nil {
		return false, err
	}
	if len(r.packages) == 0 && len(r.failures) == 0 {
		return false, errors.New("nothing was tested; is this the output of go test -json?")
	}
	switch {
	case again:
		r.again(out)
	case len(files) > 0:
		r.summarise(out, most)
	}
	return len(r.failures) > 0, nil
}

func (r *report) readFile(path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return r.read(f)
}

// read takes in all events of a run, and whatever else stands between them.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil || e.Action == "" {
				r.say("%s", line)
			} else {
				r.take(e)
			}
		}
		if errors.Is(err, io.EOF) {
			r.end()
			return nil
		}
		if err != nil {
			return fmt.Errorf("read test events: %w", err)
		}
	}
}
