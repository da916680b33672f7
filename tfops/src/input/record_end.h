// Finds the end of a text record by the rules of tf.data.experimental.CsvDataset.
//
// - A record ends with \n, \r\n, a single \r, or the end of the file. An empty line is an empty record.
// - A field that begins with a quote ends with a quote before a delimiter or before the end of the record. Delimiters
//   and line ends between the quotes of a field belong to the field. The rules for quotes also apply to fields that
//   CsvDataset rejects: in `"a"b<newline>c"`, the quote before b does not end the field.
// - In a field that does not begin with a quote, quotes have no meaning.
#ifndef ASCPIPE_INPUT_RECORD_END_H_
#define ASCPIPE_INPUT_RECORD_END_H_

#include <cstddef>

namespace ascpipe {

// The bytes of a record may arrive in pieces. The slow path does not scan a byte twice.
class RecordEnd {
 public:
  RecordEnd(char delimiter, bool use_quotes) : delimiter_(delimiter), use_quotes_(use_quotes) {}

  // Begins a record.
  void Begin() {
    state_ = State::kFieldStart;
    scanned_ = 0;
  }

  // Searches for the end of the record in its first `size` bytes. `size` is at least 1 and larger than in the previous
  // call. `is_last` is true if the file ends after the `size` bytes. Returns true and sets `bytes` to the size of the
  // record with its line end. Returns false if more bytes are needed.
  bool Find(const char* data, std::size_t size, bool is_last, std::size_t* bytes);

  // Returns the position of the unclosed quote. Call open_quote only after Find has returned false with `is_last`.
  std::size_t open_quote() const { return quote_; }

 private:
  enum class State { kFieldStart, kPlain, kQuoted, kQuoteInQuoted, kReturn };

  bool FindSlowly(const char* data, std::size_t size, bool is_last, std::size_t* bytes);

  const char delimiter_;
  const bool use_quotes_;
  State state_ = State::kFieldStart;  // state after the scanned bytes
  std::size_t scanned_ = 0;
  std::size_t quote_ = 0;  // position of the quote that began the last quoted field
};

// Returns the size of the line end at the end of a record: 0, 1 or 2.
inline std::size_t LineEndBytes(const char* record, std::size_t size) {
  if (size == 0) return 0;
  if (record[size - 1] == '\r') return 1;
  if (record[size - 1] != '\n') return 0;
  return size > 1 && record[size - 2] == '\r' ? 2 : 1;
}

}  // namespace ascpipe

#endif  // ASCPIPE_INPUT_RECORD_END_H_
