#include "reprise/tokenizer/byte_alphabet.h"

#include "reprise/base/text/utf8.h"

namespace reprise::tokenizer {
namespace {

bool is_printable_latin1(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

}  // namespace

ByteAlphabet::ByteAlphabet() {
  bytes_.fill(-1);
  char32_t next_free = 0x100;
  std::string text;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char32_t letter = is_printable_latin1(byte) ? byte : next_free++;
    bytes_[letter] = static_cast<int16_t>(byte);
    text.clear();
    append_utf8(letter, text);
    letters_[byte] = {{text.front(), text.back()}, static_cast<uint8_t>(text.size())};
  }
}

void ByteAlphabet::append_letters(std::string_view bytes, std::string& out) const {
  for (const char byte : bytes) {
    const Letter& letter = letters_[static_cast<unsigned char>(byte)];
    out.append(letter.utf8, letter.size);
  }
}

void ByteAlphabet::append_bytes(std::string_view letters, std::string& out) const {
  const size_t size_before = out.size();
  for (size_t position = 0; position < letters.size();) {
    const char32_t letter = next_code_point(letters, position);
    if (letter >= kEnd || bytes_[letter] < 0) {
      out.resize(size_before);
      out.append(letters);
      return;
    }
    out.push_back(static_cast<char>(bytes_[letter]));
  }
}

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet;
  return alphabet;
}

}  // namespace reprise::tokenizer
