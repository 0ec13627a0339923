// Package attacks has what a hostile tenant, a model that it has talked over, and a hostile server try: each attempt is
// a row of a table. Tests of single rules are beside the code; here everything is tried from the outside, measured, and
// beside another tenant who goes on as before.
//
// make attacks prints the table into docs/attacks.md.
package attacks
