#include "reprise/program/object_code.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <random>

namespace reprise::program {
namespace {

using Bytes = std::vector<std::byte>;
using Number = int (*)();

/// Builds an object as a code generator would write it, with three functions: `seven` reads a
/// constant, `indirect` reads the same constant through an address in the constant data, and
/// `nothing` reads a zero.
class TestObject {
 public:
  TestObject() {
    sections_.resize(1);
    // mov eax, [rip + rodata]; ret    mov rax, [rip + rodata + 8]; mov eax, [rax]; ret
    // mov eax, [rip + bss]; ret
    text_ =
        add({.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR, .sh_addralign = 16},
            bytes_of<uint8_t>({0x8b, 0x05, 0,    0, 0, 0, 0xc3, 0x90,              //
                               0x48, 0x8b, 0x05, 0, 0, 0, 0,    0x8b, 0x00, 0xc3,  //
                               0x8b, 0x05, 0,    0, 0, 0, 0xc3}));
    rodata_ = add({.sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC, .sh_addralign = 8},
                  bytes_of<uint32_t>({7, 0, 0, 0}));
    bss_ = add({.sh_type = SHT_NOBITS, .sh_flags = SHF_ALLOC | SHF_WRITE, .sh_addralign = 64}, {});
    sections_[bss_].header.sh_size = 5000;
    strings_ = add({.sh_type = SHT_STRTAB}, bytes_of<char>({'\0', 's', 'e', 'v', 'e', 'n', '\0'}));
    symbols_ =
        add({.sh_type = SHT_SYMTAB, .sh_link = strings_, .sh_entsize = sizeof(Elf64_Sym)}, {});
    add_symbol({});
    rodata_symbol_ = add_symbol({.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION),
                                 .st_shndx = static_cast<uint16_t>(rodata_)});
    bss_symbol_ = add_symbol({.st_info = ELF64_ST_INFO(STB_LOCAL, STT_SECTION),
                              .st_shndx = static_cast<uint16_t>(bss_)});
    add_function("seven", 0);
    add_function("indirect", 8);
    add_function("nothing", 18);
    text_relocations_ = add_relocations(text_);
    relocate(text_relocations_, 2, R_X86_64_PC32, rodata_symbol_, -4);
    relocate(text_relocations_, 11, R_X86_64_PC32, rodata_symbol_, 8 - 4);
    relocate(text_relocations_, 20, R_X86_64_PLT32, bss_symbol_, 4000 - 4);
    relocate(add_relocations(rodata_), 8, R_X86_64_64, rodata_symbol_, 0);
  }

  void relocate(uint32_t table, uint64_t offset, uint32_t type, uint32_t symbol, int64_t addend) {
    append(
        sections_[table].content,
        Elf64_Rela{.r_offset = offset, .r_info = ELF64_R_INFO(symbol, type), .r_addend = addend});
  }
  uint32_t add_symbol(const Elf64_Sym& symbol) {
    append(sections_[symbols_].content, symbol);
    return static_cast<uint32_t>(sections_[symbols_].content.size() / sizeof(Elf64_Sym)) - 1;
  }
  Elf64_Shdr& text() { return sections_[text_].header; }
  Elf64_Shdr& rodata() { return sections_[rodata_].header; }
  Elf64_Shdr& zeros() { return sections_[bss_].header; }
  [[nodiscard]] uint32_t text_relocations() const { return text_relocations_; }

  [[nodiscard]] Bytes build() const {
    Bytes file(sizeof(Elf64_Ehdr));
    std::vector<Elf64_Shdr> headers;
    for (const Section& section : sections_) {
      Elf64_Shdr header = section.header;
      header.sh_offset = file.size();
      if (header.sh_type != SHT_NOBITS) header.sh_size = section.content.size();
      file.insert(file.end(), section.content.begin(), section.content.end());
      headers.push_back(header);
    }
    Elf64_Ehdr header{.e_type = ET_REL,
                      .e_machine = EM_X86_64,
                      .e_version = EV_CURRENT,
                      .e_shoff = file.size(),
                      .e_ehsize = sizeof(Elf64_Ehdr),
                      .e_shentsize = sizeof(Elf64_Shdr),
                      .e_shnum = static_cast<uint16_t>(headers.size())};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    std::memcpy(file.data(), &header, sizeof(header));
    for (const Elf64_Shdr& section : headers) append(file, section);
    return file;
  }

 private:
  struct Section {
    Elf64_Shdr header{};
    Bytes content;
  };

  template <typename T>
  static void append(Bytes& bytes, const T& value) {
    const auto* begin = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof(T));
  }
  template <typename T>
  static Bytes bytes_of(std::initializer_list<T> values) {
    Bytes bytes;
    for (const T& value : values) append(bytes, value);
    return bytes;
  }
  uint32_t add(const Elf64_Shdr& header, Bytes content) {
    sections_.push_back({header, std::move(content)});
    return static_cast<uint32_t>(sections_.size()) - 1;
  }
  void add_function(std::string_view name, uint64_t offset) {
    Bytes& strings = sections_[strings_].content;
    const auto place = static_cast<uint32_t>(strings.size());
    for (const char letter : name) append(strings, letter);
    append(strings, '\0');
    add_symbol({.st_name = place,
                .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                .st_shndx = static_cast<uint16_t>(text_),
                .st_value = offset});
  }
  uint32_t add_relocations(uint32_t of) {
    return add(
        {.sh_type = SHT_RELA, .sh_link = symbols_, .sh_info = of, .sh_entsize = sizeof(Elf64_Rela)},
        {});
  }

  std::vector<Section> sections_;
  uint32_t text_ = 0;
  uint32_t rodata_ = 0;
  uint32_t bss_ = 0;
  uint32_t strings_ = 0;
  uint32_t symbols_ = 0;
  uint32_t text_relocations_ = 0;
  uint32_t rodata_symbol_ = 0;
  uint32_t bss_symbol_ = 0;
};

/// Whether the object can be loaded. An exception other than ObjectCodeError fails the test.
bool loads(std::span<const std::byte> object) {
  try {
    return ObjectCode::load(object).bytes() > 0;
  } catch (const ObjectCodeError&) {
    return false;
  }
}

#if defined(__x86_64__)
TEST(ObjectCode, calls_functions_that_read_constants_addresses_and_zeros) {
  const ObjectCode code = ObjectCode::load(TestObject().build());
  EXPECT_EQ(code.function_names(), (std::vector<std::string_view>{"seven", "indirect", "nothing"}));
  EXPECT_EQ(code.find<Number>("seven")(), 7);
  EXPECT_EQ(code.find<Number>("indirect")(), 7);
  EXPECT_EQ(code.find<Number>("nothing")(), 0);
  EXPECT_EQ(code.find<Number>("eight"), nullptr);
}

TEST(ObjectCode, moves_without_moving_its_code) {
  ObjectCode first = ObjectCode::load(TestObject().build());
  const auto seven = first.find<Number>("seven");
  ObjectCode second = std::move(first);
  EXPECT_EQ(second.find<Number>("seven"), seven);
  first = ObjectCode::load(TestObject().build());
  first = std::move(second);
  EXPECT_EQ(seven(), 7);
}
#endif

TEST(ObjectCode, refuses_what_generated_kernels_do_not_have) {
  const auto refuses = [](auto change) {
    TestObject object;
    change(object);
    return !loads(object.build());
  };
  EXPECT_FALSE(refuses([](TestObject&) {}));
  EXPECT_TRUE(refuses([](TestObject& o) { o.rodata().sh_flags |= SHF_WRITE; }));
  EXPECT_TRUE(refuses([](TestObject& o) { o.rodata().sh_flags |= SHF_TLS; }));
  EXPECT_TRUE(refuses([](TestObject& o) { o.rodata().sh_type = SHT_INIT_ARRAY; }));
  EXPECT_TRUE(refuses([](TestObject& o) { o.text().sh_flags &= ~uint64_t{SHF_EXECINSTR}; }));
  EXPECT_TRUE(refuses([](TestObject& o) { o.text().sh_addralign = 3; }));
  EXPECT_TRUE(refuses([](TestObject& o) { o.zeros().sh_size = uint64_t{1} << 40; }));
  EXPECT_TRUE(refuses([](TestObject& o) {  // an undefined symbol
    const uint32_t symbol = o.add_symbol({.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE)});
    o.relocate(o.text_relocations(), 2, R_X86_64_PLT32, symbol, -4);
  }));
  EXPECT_TRUE(refuses([](TestObject& o) {  // a relocation outside of the code
    o.relocate(o.text_relocations(), 22, R_X86_64_PC32, 1, 0);
  }));
  EXPECT_TRUE(refuses([](TestObject& o) {  // a distance that does not fit into 32 bits
    o.relocate(o.text_relocations(), 2, R_X86_64_PC32, 1, int64_t{1} << 40);
  }));
  EXPECT_TRUE(refuses([](TestObject& o) {  // a relocation that needs a global offset table
    o.relocate(o.text_relocations(), 2, R_X86_64_GOTPCREL, 1, 0);
  }));
}

TEST(ObjectCode, refuses_truncated_objects) {
  const Bytes object = TestObject().build();
  EXPECT_FALSE(loads({}));
  for (size_t sixteenth = 0; sixteenth < 16; ++sixteenth) {
    EXPECT_FALSE(loads(std::span(object).first(object.size() * sixteenth / 16))) << sixteenth;
  }
  for (size_t size = 0; size < object.size(); ++size) {
    // A copy of exactly `size` bytes, so that a sanitizer reports a read past its end.
    const Bytes part(object.begin(), object.begin() + static_cast<ptrdiff_t>(size));
    EXPECT_FALSE(loads(part)) << size;
  }
}

TEST(ObjectCode, survives_random_damage) {
  const Bytes object = TestObject().build();
  std::mt19937 random(1);
  int refused = 0;
  constexpr std::array<uint64_t, 6> kNasty = {
      0, 1, 0xff, 0x7fff'ffff, 0xffff'ffff'ffff'ffff, 0x8000'0000'0000'0000};
  for (int round = 0; round < 8000; ++round) {
    Bytes damaged = object;
    for (uint32_t i = 0; i <= random() % 3; ++i) {
      const size_t place = random() % (damaged.size() - 8);
      if (random() % 2 == 0) {
        damaged[place] = static_cast<std::byte>(random());
      } else {
        const uint64_t value = kNasty[random() % kNasty.size()];
        std::memcpy(damaged.data() + place / 8 * 8, &value, 8);
      }
    }
    if (!loads(damaged)) ++refused;
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace reprise::program
