// Package text prints lines to terminals and files. Texts of models, tools and users reach a terminal only as visible
// characters: no text can move the cursor, change a color, set a title or reverse the order of what is read.
package text
