// Package sessionimage has the images of a Session (IMG-01), on a store of package record.
//
// An image is named by a hash of its bytes, so that the same bytes are stored once in a Session, however often a
// message or a repeated step has them. Its bytes are in parts, which are values of their own, beside a description.
//
// Everything about an image is bounded before it is hashed or stored. An image is never decoded: the first bytes must
// be those of its media type, and whether the rest is an image only the model's provider finds out.
package sessionimage
