package config

import (
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// pattern is a parsed v1alpha1.NetworkPattern. The zero value is an invalid pattern, and matches nothing.
type pattern struct {
	// host that the pattern is about.
	host string
	// subdomains reports whether all subdomains match too.
	subdomains bool
	// sent and cleaned are the URL prefix in both its forms; empty if the pattern is a host, which matches any URL of
	// it.
	sent, cleaned string
	// root is the beginning of such a URL up to its path, the first slash included, if there is more of the path;
	// otherwise it is empty.
	root string
}

// form is a normalized form of a URL: the scheme and the host in lower case, without the default port. A URL has
// several: see formsOf.
type form struct {
	host string
	text string
	// climbs reports whether a server may interpret the path as leading upwards.
	climbs bool
}

const (
	schemeHTTP  = "http"
	schemeHTTPS = "https"
	// anySubdomain is the prefix of a pattern for a domain with all its subdomains.
	anySubdomain = "*."
)

// parsePatterns parses patterns. An invalid pattern keeps its place: an allowed list is in force even if nothing
// matches it.
func parsePatterns(texts []v1alpha1.NetworkPattern) []pattern {
	var patterns []pattern
	for _, text := range texts {
		patterns = append(patterns, parsePattern(string(text)))
	}
	return patterns
}

func parsePattern(text string) pattern {
	if !strings.Contains(text, "://") {
		host, subdomains := strings.CutPrefix(text, anySubdomain)
		return pattern{host: canonicalHost(host), subdomains: subdomains}
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != schemeHTTP && u.Scheme != schemeHTTPS) || u.User != nil || u.Hostname() == "" {
		return pattern{}
	}
	p := pattern{host: canonicalHost(u.Hostname()), sent: asSent(u).text, cleaned: asCleaned(u).text}
	if root := formOf(u, "/").text; p.sent != root {
		p.root = root
	}
	return p
}

// allows reports whether the pattern, in an allowed list, matches a URL in all its forms, and with a path does not
// match a URL that may lead upwards.
func (p pattern) allows(forms []form) bool {
	return len(forms) > 0 &&
		!slices.ContainsFunc(forms, func(f form) bool { return !p.matches(f) || p.root != "" && f.climbs })
}

// blocks reports whether the pattern, in a blocked list, matches a URL in one of its forms, or its path may lead there.
func (p pattern) blocks(forms []form) bool {
	return slices.ContainsFunc(forms, func(f form) bool {
		return p.matches(f) || p.root != "" && f.climbs && strings.HasPrefix(f.text, p.root)
	})
}

// matches reports whether the pattern matches a URL in one of its forms.
func (p pattern) matches(f form) bool {
	switch {
	case p.host == "":
		return false
	case p.sent != "":
		return strings.HasPrefix(f.text, p.sent) || strings.HasPrefix(f.text, p.cleaned)
	default:
		return f.host == p.host || (p.subdomains && strings.HasSuffix(f.host, "."+p.host))
	}
}

// within reports whether another pattern matches everything that this one matches.
func (p pattern) within(other pattern) bool {
	switch {
	case p.host == "":
		return false
	case p.sent != "":
		return other.matches(form{host: p.host, text: p.sent}) && other.matches(form{host: p.host, text: p.cleaned})
	case other.sent != "", p.subdomains && !other.subdomains:
		return false
	default:
		return other.matches(form{host: p.host})
	}
}

// formsOf returns the ways in which a server may read a URL: as it is sent, and with the escapes of its path decoded
// and its dots resolved. A path that leads elsewhere in one of them is not within the apparent path of the other. A URL
// without a host has none.
func formsOf(u *url.URL) []form {
	if u.Hostname() == "" {
		return nil
	}
	sent, cleaned := asSent(u), asCleaned(u)
	sent.climbs = climbs(u.EscapedPath())
	cleaned.climbs = sent.climbs
	if sent == cleaned {
		return []form{sent}
	}
	return []form{sent, cleaned}
}

// maxUnescaped is how often a path is unescaped. A path with more levels of escapes is malicious.
const maxUnescaped = 8

// climbs reports whether a server, or a proxy in front of it, may read a path as one that leads upwards: with escapes
// decoded repeatedly, with backslashes for slashes, and without parameters, spaces and other suffixes of a segment.
func climbs(escaped string) bool {
	for range maxUnescaped {
		before := escaped
		if escaped = unescaped(before); escaped == before {
			return slices.ContainsFunc(strings.FieldsFunc(escaped, isSlash), isUpwards)
		}
	}
	return true
}

func isSlash(r rune) bool {
	return r == '/' || r == '\\'
}

func isUpwards(segment string) bool {
	if end := strings.IndexAny(segment, ";?#\x00"); end >= 0 {
		segment = segment[:end]
	}
	return strings.Map(func(r rune) rune {
		if r <= ' ' {
			return -1
		}
		return r
	}, segment) == ".."
}

// unescaped decodes the escapes of a path once. Invalid escapes stay unchanged.
func unescaped(text string) string {
	var read strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if value, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				read.WriteByte(byte(value))
				i += 2
				continue
			}
		}
		read.WriteByte(text[i])
	}
	return read.String()
}

func asSent(u *url.URL) form {
	return formOf(u, u.EscapedPath())
}

func asCleaned(u *url.URL) form {
	cleaned := path.Clean("/" + u.Path)
	if last := u.Path[strings.LastIndex(u.Path, "/")+1:]; cleaned != "/" && (last == "" || last == "." || last == "..") {
		cleaned += "/"
	}
	return formOf(u, cleaned)
}

func formOf(u *url.URL, urlPath string) form {
	host := canonicalHost(u.Hostname())
	scheme := strings.ToLower(u.Scheme)
	text := scheme + "://" + host
	if strings.Contains(host, ":") {
		text = scheme + "://[" + host + "]"
	}
	if port := strings.TrimLeft(
		u.Port(),
		"0",
	); port != "" &&
		port != map[string]string{schemeHTTP: "80", schemeHTTPS: "443"}[scheme] {
		text += ":" + port
	}
	if urlPath == "" {
		urlPath = "/"
	}
	text += urlPath
	if u.RawQuery != "" {
		text += "?" + u.RawQuery
	}
	return form{host: host, text: text}
}

// canonicalHost returns the canonical form of a host: a name in lower case without the final dot, an address in its
// usual notation.
func canonicalHost(host string) string {
	if address, err := netip.ParseAddr(host); err == nil {
		return address.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
