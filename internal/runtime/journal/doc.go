// Package journal is the append-only log of a Session, on a store that can read an entry by its ordinal and create one
// that does not exist.
//
// # What it promises
//
// Every step of a Turn is closed by exactly one final entry, whoever writes it and whatever dies. A writer has read
// every entry since the step was opened before it creates its own at the first free ordinal; so the store's create
// decides every race, and whoever loses one finds the winner's entry and adopts it. Ordinals have no gaps. A create
// whose outcome is not known is resolved by reading the same ordinal again and is only ever tried again there, with the
// same content.
//
// # Parts
//
// An entry takes at most MaxEntryBytes. A step that is larger is written as several entries: parts that are not final,
// and the final one, which names the ordinals of its parts. A part that no final entry names does not count: it is what
// a writer left that died half way. An event (or planned call) that is too large for one entry is written as several
// events of the same id, whose data is text; read one after another, the texts are the data.
//
// A result of a client tool that comes before its step is complete is such a part too, with the result in it. Of
// several for one call the first in the log is the one that counts.
//
// A call that must start at most once is claimed before it starts, by a part that no final entry names, and its result
// is settled when it ends. A claim without a result means that nobody can know what has become of the call, unless he
// holds the claim himself.
//
// # Checkpoints
//
// Every ordinal that is a multiple of 64 holds a checkpoint. The one at 64c sums up the entries from 64(c-lowbit(c))+1
// on, as in a Fenwick tree, so that a cold reader needs one checkpoint for each bit of c that is set, at most 63
// entries behind the last checkpoint, and one read that finds nothing. A checkpoint whose transcript would be too large
// sums up less: the next smaller power of two, at worst nothing, and the reader reads what is missing. Parts that a
// final entry names across a checkpoint are read besides.
package journal
