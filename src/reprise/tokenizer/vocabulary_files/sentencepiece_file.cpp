#include "reprise/tokenizer/vocabulary_files/sentencepiece_file.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

#include "reprise/base/error.h"
#include "reprise/base/text/utf8.h"
#include "reprise/tokenizer/vocabulary_files/protobuf_reader.h"

namespace reprise::tokenizer {
namespace {

using Field = ProtobufReader::Field;

class SentencePieceReader {
 public:
  SentencePieceReader(std::string_view bytes, std::string_view path) : bytes_(bytes), path_(path) {}

  SentencePieceFile read() {
    ProtobufReader message(bytes_, path_);
    for (Field field; message.next(field);) {
      switch (field.number) {
        case 1:
          read_piece(message.text(field), field.offset);
          break;
        case 2:
          read_trainer(message.text(field), field.offset);
          break;
        case 3:
          read_normalizer(message.text(field), field.offset);
          break;
        case 5:
          read_denormalizer(message.text(field), field.offset);
          break;
        default:  // tests of the model, and extensions
          break;
      }
    }
    check();
    return std::move(file_);
  }

 private:
  [[noreturn]] void fail(std::string_view field, std::string_view message) const {
    throw FileError("E_TOKENIZER", path_, field, message);
  }
  [[noreturn]] void fail_piece(size_t id, std::string_view message) const {
    fail(fmt::format("piece {}", id), message);
  }

  void read_piece(std::string_view bytes, size_t offset) {
    const size_t id = file_.pieces.size();
    if (id == SentencePieceFile::kMaxPieces) {
      fail("pieces", fmt::format("more than {} pieces", SentencePieceFile::kMaxPieces));
    }
    SentencePiece piece;
    ProtobufReader message(bytes, path_, offset);
    for (Field field; message.next(field);) {
      if (field.number == 1) piece.text = message.text(field);
      if (field.number == 2) piece.score = message.real(field);
      if (field.number == 3) {
        const uint64_t type = message.integer(field);
        if (type < 1 || type > 6) {
          fail_piece(id, fmt::format("has the type {}, expected 1 to 6", type));
        }
        piece.type = static_cast<SentencePiece::Type>(type);
      }
    }
    if (piece.text.empty()) fail_piece(id, "has no text");
    if (piece.text.size() > SentencePieceFile::kMaxPieceBytes) {
      fail_piece(id,
                 fmt::format("has {} bytes, at most {} are accepted",
                             piece.text.size(),
                             SentencePieceFile::kMaxPieceBytes));
    }
    if (!is_valid_utf8(piece.text)) fail_piece(id, "is not UTF-8");
    if (!std::isfinite(piece.score)) fail_piece(id, "has a score that is not a finite number");
    file_.pieces.push_back(piece);
  }

  void read_trainer(std::string_view bytes, size_t offset) {
    ProtobufReader message(bytes, path_, offset);
    const auto id = [&](const Field& field) {  // a negative id has ten bytes
      return static_cast<int32_t>(static_cast<uint32_t>(message.integer(field)));
    };
    for (Field field; message.next(field);) {
      if (field.number == 3) read_model(message.integer(field));
      if (field.number == 24 && message.boolean(field)) {
        fail("trainer_spec/treat_whitespace_as_suffix",
             "models that write spaces behind words are not supported");
      }
      if (field.number == 35) file_.byte_fallback = message.boolean(field);
      if (field.number == 41) file_.bos_id = id(field);
      if (field.number == 42) file_.eos_id = id(field);
      if (field.number == 43) file_.pad_id = id(field);
    }
  }

  void read_model(uint64_t type) {
    if (type == 1 || type == 2) {
      file_.model = static_cast<SentencePieceFile::Model>(type);
      return;
    }
    fail("trainer_spec/model_type",
         fmt::format("{} is not supported; supported: 1 (Unigram), 2 (BPE)",
                     type == 3   ? "3 (words)"
                     : type == 4 ? "4 (characters)"
                                 : std::to_string(type)));
  }

  void read_normalizer(std::string_view bytes, size_t offset) {
    ProtobufReader message(bytes, path_, offset);
    for (Field field; message.next(field);) {
      if (field.number == 2) file_.character_map = message.text(field);
      if (field.number == 3) file_.adds_dummy_prefix = message.boolean(field);
      if (field.number == 4) file_.removes_extra_spaces = message.boolean(field);
      if (field.number == 5) file_.escapes_spaces = message.boolean(field);
    }
  }

  void read_denormalizer(std::string_view bytes, size_t offset) const {
    ProtobufReader message(bytes, path_, offset);
    for (Field field; message.next(field);) {
      if (field.number == 2 && !message.text(field).empty()) {
        fail("denormalizer_spec/precompiled_charsmap",
             "models that change characters when they decode are not supported");
      }
    }
  }

  void check() {
    if (file_.pieces.empty()) fail("pieces", "the file has no pieces");
    std::optional<size_t> unknown;
    for (size_t id = 0; id < file_.pieces.size(); ++id) {
      if (file_.pieces[id].type != SentencePiece::Type::unknown) continue;
      if (unknown) fail_piece(id, fmt::format("is unknown, and so is piece {}", *unknown));
      unknown = id;
    }
    if (!unknown) fail("pieces", "no piece has the type 2 (unknown)");
    file_.unknown_id = static_cast<uint32_t>(*unknown);
  }

  std::string_view bytes_;
  std::string_view path_;
  SentencePieceFile file_;
};

}  // namespace

SentencePieceFile SentencePieceFile::read(std::string_view bytes, std::string_view path) {
  return SentencePieceReader(bytes, path).read();
}

}  // namespace reprise::tokenizer
