// The byte-level BPE tokenizer of the library, from the JSON that a checkpoint holds, and its spelling of lines.
"use strict";
(function (algoformer) {
  // As Python splits: Unicode's white space and four separators.
  const BLANK = "\\p{White_Space}\\x1c-\\x1f";
  const BLANKS = new RegExp(`[${BLANK}]+`, "gu"), SIGNS = new RegExp(`[^\\p{L}\\p{N}${BLANK}]`, "gu");
  // GPT-2's words: contractions, letters, digits, signs and white space, with the space before them.
  const WORDS = /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

  // A line as the training text is spelled: NFC, single spaces, optionally lower case and words only.
  function spell(line, {plain, lowercase, only_words: onlyWords}) {
    if (!plain) return line;
    const composed = line.normalize("NFC");
    const text = (onlyWords ? composed.replace(SIGNS, " ") : composed).replace(BLANKS, " ").replace(/^ | $/g, "");
    return lowercase ? text.toLowerCase() : text;
  }

  // The letter that stands for each byte, as in GPT-2: itself, or one from U+0100 on.
  function letters() {
    const between = (byte, first, last) => byte >= first.codePointAt(0) && byte <= last.codePointAt(0);
    let unseen = 256;
    return Array.from({length: 256}, (_, byte) =>
      String.fromCharCode(between(byte, "!", "~") || between(byte, "¡", "¬") || between(byte, "®", "ÿ") ? byte : unseen++));
  }

  class Tokenizer {
    constructor({format, kind, specials, merges}) {
      if (format !== 1 || kind !== "byte-level BPE") {
        throw new Error(`this page does not know tokenizers of the kind "${kind}", format ${format}; make it again with algoformer explore`);
      }
      this.letters = letters();
      this.specials = specials;
      this.pieces = [...specials, ...this.letters.slice().sort()];
      this.numbers = new Map(this.pieces.map((piece, number) => [piece, number]));
      this.ranks = new Map(merges.map((pair, rank) => [pair, rank]));
      for (const pair of merges) {
        const piece = pair.replace(" ", "");
        if (this.numbers.has(piece)) continue;
        this.numbers.set(piece, this.pieces.length);
        this.pieces.push(piece);
      }
      this.bytes = new Map(this.letters.map((letter, byte) => [letter, byte]));
    }

    // The tokens of a text; the first word is read as if a space stood before it.
    encode(text) {
      const words = text ? ` ${text}`.match(WORDS) : [], encoder = new TextEncoder();
      return words.flatMap((word) => this.merge(Array.from(encoder.encode(word), (byte) => this.letters[byte])));
    }

    // Merge the pair of lowest rank until none is left.
    merge(parts) {
      for (;;) {
        let first = -1, lowest = Infinity;
        for (let k = 0; k + 1 < parts.length; k++) {
          const rank = this.ranks.get(`${parts[k]} ${parts[k + 1]}`) ?? Infinity;
          if (rank < lowest) [first, lowest] = [k, rank];
        }
        if (first < 0) return parts.map((part) => this.numbers.get(part));
        parts.splice(first, 2, parts[first] + parts[first + 1]);
      }
    }

    // The text of tokens; special ones are left out.
    decode(ids) {
      const plain = ids.filter((id) => id >= this.specials.length);
      const bytes = plain.flatMap((id) => Array.from(this.pieces[id], (letter) => this.bytes.get(letter)));
      return new TextDecoder("utf-8", {ignoreBOM: true}).decode(Uint8Array.from(bytes));
    }

    // A token as a reader sees it: spaces are marks, special tokens have names.
    show(id) {
      return id < this.specials.length ? this.specials[id] : this.decode([id]).replaceAll(" ", "␣");
    }
  }

  Object.assign(algoformer, {Tokenizer, spell});
})((self.algoformer = self.algoformer || {}));
