#include "reprise/compile/model/program_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "reprise/base/json.h"

namespace reprise::compile {
namespace {

constexpr const char* kRangesFile = "ranges.json";
std::string program_file(size_t index) { return fmt::format("program_{}.json", index); }
std::string object_file(size_t index) { return fmt::format("kernels_{}.o", index); }

std::string find_bytes(const ProgramFiles& files, const std::string& name) {
  const auto file = std::find_if(
      files.begin(), files.end(), [&](const CacheFile& other) { return other.name == name; });
  return file == files.end() ? std::string() : file->bytes;
}

std::vector<program::ProgramRange> parse_ranges(const std::string& text, size_t num_programs) {
  std::vector<program::ProgramRange> ranges;
  const Json list = parse_json(text, kRangesFile);
  for (const Json& item : list) {
    const bool is_range = item.is_array() && item.size() == 4 && item[0].is_number_integer() &&
                          item[1].is_number_integer() && item[2].is_number_unsigned() &&
                          item[3].is_number_unsigned();
    // The number of which token counts are multiples is the number of ranks.
    if (!is_range || item[2].get<uint64_t>() - 1 >= 1024 || item[3].get<size_t>() >= num_programs) {
      throw program::ArtifactError("ranges.json names programs that do not exist");
    }
    ranges.push_back({.tokens = {.begin = item[0].get<int64_t>(),
                                 .end = item[1].get<int64_t>(),
                                 .multiple = item[2].get<int64_t>()},
                      .program = item[3].get<size_t>()});
  }
  if (ranges.empty()) throw program::ArtifactError("no range");
  return ranges;
}

}  // namespace

void add_program(ProgramFiles& files, size_t index, program::Artifact artifact) {
  files.push_back({.name = program_file(index), .bytes = std::move(artifact.program)});
  files.push_back({.name = object_file(index), .bytes = std::move(artifact.object)});
}

// "[[1,8,1,0],[9,9223372036854775807,1,1]]": first token count, last token count, of which number
// the counts are multiples, index of the program.
void add_ranges(ProgramFiles& files, const std::vector<program::ProgramRange>& ranges) {
  Json list = Json::array();
  for (const program::ProgramRange& range : ranges) {
    list.push_back({range.tokens.begin, range.tokens.end, range.tokens.multiple, range.program});
  }
  files.push_back({.name = kRangesFile, .bytes = list.dump()});
}

size_t find_program(const ProgramFiles& files, size_t num_programs, const std::string& bytes) {
  size_t index = 0;
  while (index < num_programs && find_bytes(files, program_file(index)) != bytes) ++index;
  return index;
}

program::RangedPrograms load_programs(const ProgramFiles& files,
                                      const device::CodeLoader& loader,
                                      std::span<const CustomOp* const> custom_ops) {
  program::RangedPrograms loaded;
  for (size_t i = 0; !find_bytes(files, program_file(i)).empty(); ++i) {
    loaded.programs.push_back(program::from_artifact({.program = find_bytes(files, program_file(i)),
                                                      .object = find_bytes(files, object_file(i))},
                                                     loader,
                                                     custom_ops));
  }
  loaded.ranges = parse_ranges(find_bytes(files, kRangesFile), loaded.programs.size());
  return loaded;
}

}  // namespace reprise::compile
