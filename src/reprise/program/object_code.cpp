#include "reprise/program/object_code.h"

#include <elf.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

namespace reprise::program {
namespace {

// A generated kernel has a few KiB. This limit keeps a damaged size field from exhausting memory.
constexpr uint64_t kMaxImageBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxSectionAlignment = 4096;

template <typename... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw ObjectCodeError("object code: " + fmt::format(format, std::forward<Args>(args)...));
}

/// Reads the structures of an ELF file. Before each read it checks that the structure lies inside
/// the file.
class ElfFile {
 public:
  explicit ElfFile(std::span<const std::byte> bytes) : bytes_(bytes) {
    header_ = read<Elf64_Ehdr>(0, "header");
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0) fail("not an ELF file");
    if (header_.e_ident[EI_CLASS] != ELFCLASS64 || header_.e_ident[EI_DATA] != ELFDATA2LSB ||
        header_.e_type != ET_REL || header_.e_machine != EM_X86_64) {
      fail("not a relocatable object of x86-64");
    }
    if (header_.e_shentsize != sizeof(Elf64_Shdr)) fail("section headers of a foreign size");
    for (uint64_t i = 0; i < header_.e_shnum; ++i) {
      sections_.push_back(
          read<Elf64_Shdr>(offset_of(header_.e_shoff, i, sizeof(Elf64_Shdr)), "section header"));
    }
  }

  [[nodiscard]] const std::vector<Elf64_Shdr>& sections() const noexcept { return sections_; }
  [[nodiscard]] const Elf64_Shdr& section(uint64_t index) const {
    if (index >= sections_.size()) fail("section {} of {}", index, sections_.size());
    return sections_[index];
  }
  [[nodiscard]] std::span<const std::byte> content(const Elf64_Shdr& section) const {
    if (section.sh_offset > bytes_.size() || section.sh_size > bytes_.size() - section.sh_offset) {
      fail("a section of {} bytes at {} in a file of {}",
           section.sh_size,
           section.sh_offset,
           bytes_.size());
    }
    return bytes_.subspan(section.sh_offset, section.sh_size);
  }
  /// All entries of the table in a section.
  template <typename Entry>
  [[nodiscard]] std::vector<Entry> entries(const Elf64_Shdr& section) const {
    const std::span<const std::byte> bytes = content(section);
    if (section.sh_entsize != sizeof(Entry) || bytes.size() % sizeof(Entry) != 0) {
      fail("a table of {} bytes with entries of {}", bytes.size(), section.sh_entsize);
    }
    std::vector<Entry> result(bytes.size() / sizeof(Entry));
    if (!result.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
    return result;
  }
  /// The zero-terminated string at `offset` of a string table.
  [[nodiscard]] std::string_view string(const Elf64_Shdr& table, uint64_t offset) const {
    const std::span<const std::byte> bytes = content(table);
    if (offset >= bytes.size()) fail("a name at {} of {} bytes", offset, bytes.size());
    const auto* begin = reinterpret_cast<const char*>(bytes.data()) + offset;
    const size_t length = strnlen(begin, bytes.size() - offset);
    if (length == bytes.size() - offset) fail("a name without an end");
    return {begin, length};
  }

 private:
  static uint64_t offset_of(uint64_t begin, uint64_t index, uint64_t size) {
    // the index has 16 bits, so only the addition can overflow
    if (begin > std::numeric_limits<uint64_t>::max() - index * size) fail("an offset overflows");
    return begin + index * size;
  }
  template <typename T>
  [[nodiscard]] T read(uint64_t offset, const char* what) const {
    if (offset > bytes_.size() || sizeof(T) > bytes_.size() - offset) {
      fail("{} at {} in a file of {} bytes", what, offset, bytes_.size());
    }
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  std::span<const std::byte> bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
};

bool is_loaded(const Elf64_Shdr& section) {
  return (section.sh_flags & SHF_ALLOC) != 0 && section.sh_size > 0;
}
bool is_code(const Elf64_Shdr& section) { return (section.sh_flags & SHF_EXECINSTR) != 0; }

uint64_t align(uint64_t offset, uint64_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

void require_loadable(const Elf64_Shdr& section) {
  const bool is_zeros = section.sh_type == SHT_NOBITS;
  if (section.sh_type != SHT_PROGBITS && !is_zeros && section.sh_type != SHT_X86_64_UNWIND) {
    fail("a section of type {}, which cannot be loaded", section.sh_type);
  }
  if ((section.sh_flags & SHF_TLS) != 0 || ((section.sh_flags & SHF_WRITE) != 0 && !is_zeros) ||
      (is_code(section) && is_zeros)) {
    fail("a section with flags {:#x}: neither code nor constants", section.sh_flags);
  }
  if (section.sh_addralign > kMaxSectionAlignment ||
      (section.sh_addralign != 0 && !std::has_single_bit(section.sh_addralign))) {
    fail("a section aligned to {} bytes", section.sh_addralign);
  }
  if (section.sh_size > kMaxImageBytes) fail("a section of {} bytes", section.sh_size);
}

/// The place of each section in the image: code first, all other sections from the next page on.
struct ImageLayout {
  // For each section; nothing: the section is not loaded.
  std::vector<std::optional<uint64_t>> offsets;
  uint64_t code_bytes = 0;  // a multiple of the page size
  uint64_t bytes = 0;       // a multiple of the page size
};

ImageLayout lay_out(const ElfFile& file, uint64_t page) {
  ImageLayout layout;
  layout.offsets.resize(file.sections().size());
  for (const bool code : {true, false}) {
    for (size_t i = 0; i < file.sections().size(); ++i) {
      const Elf64_Shdr& section = file.sections()[i];
      if (!is_loaded(section) || is_code(section) != code) continue;
      require_loadable(section);
      const uint64_t offset = align(layout.bytes, std::max<uint64_t>(section.sh_addralign, 1));
      layout.offsets[i] = offset;
      layout.bytes = offset + section.sh_size;
      if (layout.bytes > kMaxImageBytes) fail("more than {} bytes of code", kMaxImageBytes);
    }
    layout.bytes = align(layout.bytes, page);
    if (code) layout.code_bytes = layout.bytes;
  }
  if (layout.code_bytes == 0) fail("no code in it");
  return layout;
}

/// Copies the sections into an image and resolves the references between them.
class Linker {
 public:
  Linker(const ElfFile& file, const ImageLayout& layout, std::byte* image)
      : file_(file), layout_(layout), image_(image) {}

  void copy_sections() {
    for (size_t i = 0; i < file_.sections().size(); ++i) {
      const Elf64_Shdr& section = file_.sections()[i];
      if (!layout_.offsets[i] || section.sh_type == SHT_NOBITS) continue;
      const std::span<const std::byte> content = file_.content(section);
      std::memcpy(image_ + *layout_.offsets[i], content.data(), content.size());
    }
  }

  void relocate() {
    for (const Elf64_Shdr& table : file_.sections()) {
      if (table.sh_type != SHT_RELA && table.sh_type != SHT_REL) continue;
      // The section is debug information.
      if (!is_loaded(file_.section(table.sh_info))) continue;
      if (table.sh_type == SHT_REL) fail("relocations without addends");
      relocate_section(table);
    }
  }

  /// Address of a symbol in the image.
  [[nodiscard]] uint64_t address_of(const Elf64_Sym& symbol) const {
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= SHN_LORESERVE) {
      fail("a symbol that is defined elsewhere");
    }
    const Elf64_Shdr& section = file_.section(symbol.st_shndx);
    if (!layout_.offsets[symbol.st_shndx] || symbol.st_value > section.sh_size) {
      fail("a symbol at {} of a section of {} bytes", symbol.st_value, section.sh_size);
    }
    return reinterpret_cast<uint64_t>(image_) + *layout_.offsets[symbol.st_shndx] + symbol.st_value;
  }

 private:
  void relocate_section(const Elf64_Shdr& table) {
    const Elf64_Shdr& target = file_.section(table.sh_info);
    if (target.sh_type == SHT_NOBITS) fail("relocations of zeros");
    const Elf64_Shdr& symbol_table = file_.section(table.sh_link);
    if (symbol_table.sh_type != SHT_SYMTAB) fail("relocations without symbols");
    const auto symbols = file_.entries<Elf64_Sym>(symbol_table);
    std::byte* section = image_ + *layout_.offsets[table.sh_info];
    for (const auto& relocation : file_.entries<Elf64_Rela>(table)) {
      const uint64_t index = ELF64_R_SYM(relocation.r_info);
      if (index >= symbols.size()) fail("symbol {} of {}", index, symbols.size());
      apply(relocation, address_of(symbols[index]), section, target.sh_size);
    }
  }

  static void apply(const Elf64_Rela& relocation,
                    uint64_t symbol,
                    std::byte* section,
                    uint64_t section_bytes) {
    const uint64_t type = ELF64_R_TYPE(relocation.r_info);
    const uint64_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
    if (section_bytes < width || relocation.r_offset > section_bytes - width) {
      fail("a relocation at {} of {} bytes", relocation.r_offset, section_bytes);
    }
    std::byte* place = section + relocation.r_offset;
    const uint64_t absolute = symbol + static_cast<uint64_t>(relocation.r_addend);
    const uint64_t relative = absolute - reinterpret_cast<uint64_t>(place);
    switch (type) {
      case R_X86_64_64:
        return write(place, absolute);
      case R_X86_64_PC64:
        return write(place, relative);
      case R_X86_64_PC32:
      case R_X86_64_PLT32:  // PLT: the called function is in the image, so a direct call suffices
        return write_signed_32(place, relative);
      case R_X86_64_32S:
        return write_signed_32(place, absolute);
      default:
        fail("a relocation of type {}", type);
    }
  }
  static void write_signed_32(std::byte* place, uint64_t value) {
    const auto narrow = static_cast<int32_t>(static_cast<uint32_t>(value));
    const auto extended = static_cast<uint64_t>(static_cast<int64_t>(narrow));
    if (extended != value) {
      fail("a relocation that does not reach");
    }
    write(place, narrow);
  }
  template <typename T>
  static void write(std::byte* place, T value) {
    std::memcpy(place, &value, sizeof(value));
  }

  const ElfFile& file_;
  const ImageLayout& layout_;
  std::byte* image_;
};

bool is_exported_function(const ElfFile& file, const Elf64_Sym& symbol) {
  return ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && ELF64_ST_BIND(symbol.st_info) == STB_GLOBAL &&
         symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < SHN_LORESERVE &&
         is_code(file.section(symbol.st_shndx)) &&
         symbol.st_value < file.section(symbol.st_shndx).sh_size;
}

}  // namespace

ObjectCode ObjectCode::load(std::span<const std::byte> object) {
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const ElfFile file(object);
  const ImageLayout layout = lay_out(file, page);

  ObjectCode code;
  void* memory =
      mmap(nullptr, layout.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw OutOfMemory("object code: no memory for the image");
  code.memory_ = memory;
  code.bytes_ = layout.bytes;

  auto* image = static_cast<std::byte*>(memory);
  Linker linker(file, layout, image);
  linker.copy_sections();
  linker.relocate();
  for (const Elf64_Shdr& section : file.sections()) {
    if (section.sh_type != SHT_SYMTAB) continue;
    const Elf64_Shdr& names = file.section(section.sh_link);
    for (const auto& symbol : file.entries<Elf64_Sym>(section)) {
      if (!is_exported_function(file, symbol)) continue;
      code.functions_.push_back({std::string(file.string(names, symbol.st_name)),
                                 reinterpret_cast<void*>(linker.address_of(symbol))});
    }
  }
  if (mprotect(image, layout.code_bytes, PROT_READ | PROT_EXEC) != 0 ||
      (layout.bytes > layout.code_bytes &&
       mprotect(image + layout.code_bytes, layout.bytes - layout.code_bytes, PROT_READ) != 0)) {
    fail("this system does not let memory become code: {}", std::strerror(errno));
  }
  return code;
}

ObjectCode::ObjectCode(ObjectCode&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      functions_(std::move(other.functions_)) {}

ObjectCode& ObjectCode::operator=(ObjectCode&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(functions_, other.functions_);
  return *this;
}

ObjectCode::~ObjectCode() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

std::vector<std::string_view> ObjectCode::function_names() const {
  std::vector<std::string_view> names;
  for (const Function& function : functions_) names.emplace_back(function.name);
  return names;
}

void* ObjectCode::address_of(std::string_view name) const noexcept {
  const auto found = std::ranges::find(functions_, name, &Function::name);
  return found == functions_.end() ? nullptr : found->address;
}

}  // namespace reprise::program
