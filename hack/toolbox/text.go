package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"unicode/utf8"
)

// wordCount prints how many words a text has: runs of characters between white space.
func wordCount(s streams) error {
	args, err := arguments[struct{ Text string }](s)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, len(strings.Fields(args.Text)))
	return err
}

// calculate prints the value of an arithmetic expression.
func calculate(s streams) error {
	args, err := arguments[struct{ Expression string }](s)
	if err != nil {
		return err
	}
	value, err := evaluate(args.Expression)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, formatNumber(value))
	return err
}

// weather prints a forecast that is made up, and always the same for the same city however it is capitalised.
func weather(s streams) error {
	args, err := arguments[struct{ City string }](s)
	if err != nil {
		return err
	}
	city := strings.TrimSpace(args.City)
	if city == "" {
		return errors.New("which city?")
	}
	_, err = fmt.Fprintln(s.out, forecast(city))
	return err
}

func forecast(city string) string {
	hash := fnv.New32a()
	_, _ = io.WriteString(hash, strings.ToLower(city)) // a hash never fails
	n := hash.Sum32()
	pick := func(choices uint32) uint32 {
		chosen := n % choices
		n /= choices
		return chosen
	}
	skies := []string{"sunny", "cloudy", "rain", "showers", "fog", "windy", "thunderstorms"}
	sky := skies[pick(uint32(len(skies)))]
	temperature := int(pick(36)) - 4
	return fmt.Sprintf("%s: %s, %d °C, wind %d km/h", city, sky, temperature, pick(45))
}

// echo writes its input back byte for byte.
func echo(s streams) error {
	_, err := io.Copy(s.out, s.in)
	return err
}

// digest prints the SHA-256 of its input in hexadecimal.
func digest(s streams) error {
	hash := sha256.New()
	if _, err := io.Copy(hash, s.in); err != nil {
		return fmt.Errorf("reading the input: %w", err)
	}
	_, err := fmt.Fprintf(s.out, "%x\n", hash.Sum(nil))
	return err
}

// pattern mixes runes of one, two, three and four bytes, so that a cut at a fixed number of bytes often falls inside
// one.
const pattern = "aß漢😀 "

// emit writes exactly that many bytes of valid UTF-8.
func emit(s streams) error {
	args, err := arguments[struct{ Bytes int64 }](s)
	if err != nil {
		return err
	}
	if args.Bytes < 0 {
		return errors.New("bytes is negative")
	}
	out := bufio.NewWriterSize(s.out, 64*1024)
	left := args.Bytes
	for left > 0 {
		for _, r := range pattern {
			if left < int64(utf8.RuneLen(r)) {
				r = 'x'
			}
			if left == 0 {
				break
			}
			n, err := out.WriteRune(r)
			if err != nil {
				return err
			}
			left -= int64(n)
		}
	}
	return out.Flush()
}
