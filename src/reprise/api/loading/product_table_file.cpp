#include "reprise/api/loading/product_table_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/base/private_directory.h"
#include "reprise/compile/cache/cache_key.h"

namespace reprise::api {
namespace {

using kernels::ProductTable;

constexpr std::string_view kFirstWords = "reprise measured products 1 ";
constexpr uint64_t kMostBytes = uint64_t{32} << 20;
constexpr const char* kLockName = "lock";
// Only the owner of the lock writes, so one name is enough.
constexpr const char* kDraftName = "draft";

std::string message_of(int error) { return std::generic_category().message(error); }

/// XXH3 of a text, 32 hexadecimal digits.
std::string digest_of(std::string_view text) {
  return compile::CacheKey().add_digest("text", text).hash();
}

/// The lock of a folder's files, or the errno why there is none. Waits for other processes, which
/// hold it for milliseconds.
int take_lock(int directory, Descriptor& lock) {
  const int number =
      ::openat(directory, kLockName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (number < 0) return errno;
  lock = Descriptor(number);
  while (::flock(number, LOCK_EX) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace

ProductTableFile::ProductTableFile(Options options)
    : options_(std::move(options)), name_(digest_of(options_.identity) + ".products") {}

std::filesystem::path ProductTableFile::path() const { return options_.root / name_; }

ProductTableFile::Read ProductTableFile::read() const {
  const DiskSteps disk(options_.step_hook);
  const PrivateDirectory folder =
      open_private_directory(disk, options_.root, {}, MissingDirectory::reported);
  if (folder.state == PrivateDirectory::State::absent) return {.table = {}, .reason = "no file"};
  if (folder.state != PrivateDirectory::State::open) {
    return {.table = {}, .reason = folder.reason, .is_broken = true};
  }
  return read_from(folder.descriptor.number());
}

ProductTableFile::Read ProductTableFile::read_from(int directory) const {
  const DiskSteps disk(options_.step_hook);
  Descriptor file;
  std::string bytes;
  int error = disk.open_file(directory, name_, file);
  if (error == ENOENT) return {.table = {}, .reason = "no file"};
  if (error == 0) error = disk.read(file, kMostBytes + 1, bytes);
  if (error != 0) {
    return {.table = {},
            .reason = fmt::format("{}: {}", path().string(), message_of(error)),
            .is_broken = true,
            .is_unreadable = true};
  }
  try {
    return {.table = parse_product_file(bytes, options_.identity, path().string()), .reason = {}};
  } catch (const InvalidArgument& broken) {
    return {.table = {}, .reason = broken.what(), .is_broken = true};
  }
}

ProductTableFile::Saved ProductTableFile::add(const ProductTable& measured, Known known) const {
  const DiskSteps disk(options_.step_hook);
  const PrivateDirectory folder =
      open_private_directory(disk, options_.root, {}, MissingDirectory::created);
  if (folder.state != PrivateDirectory::State::open) {
    return {.table = measured, .reason = folder.reason};
  }
  const int directory = folder.descriptor.number();
  Descriptor lock;
  if (const int error = take_lock(directory, lock)) {
    return {
        .table = measured,
        .reason = fmt::format(
            "{}: cannot be locked: {}", (options_.root / kLockName).string(), message_of(error))};
  }
  const Read old = read_from(directory);
  if (old.is_unreadable) return {.table = measured, .reason = old.reason};
  Saved saved{.table = known == Known::kept ? old.table : measured, .reason = {}};
  saved.table.merge(known == Known::kept ? measured : old.table);
  saved.reason = write_to(directory, saved.table);
  return saved;
}

std::string ProductTableFile::write_to(int directory, const ProductTable& table) const {
  const DiskSteps disk(options_.step_hook);
  Descriptor file;
  (void)disk.remove(directory, kDraftName);  // of a process that was killed
  int error = disk.create_file(directory, kDraftName, file);
  if (error == 0) error = disk.write(file, print_product_file(options_.identity, table));
  if (error == 0) error = disk.sync(file);
  if (error == 0) {
    error = disk.rename(directory, kDraftName, name_, DiskSteps::Existing::replaced);
  }
  if (error == 0) return {};
  (void)disk.remove(directory, kDraftName);
  return fmt::format("{}: {}", path().string(), message_of(error));
}

std::string print_product_file(std::string_view identity, const ProductTable& table) {
  const std::string rest = fmt::format("{}\n{}", identity, kernels::print(table));
  return fmt::format("{}{}\n{}", kFirstWords, digest_of(rest), rest);
}

ProductTable parse_product_file(std::string_view bytes,
                                std::string_view identity,
                                std::string_view where) {
  const auto fail = [&](std::string_view why) {
    throw InvalidArgument(fmt::format("{}: {}", where, why));
  };
  if (bytes.size() > kMostBytes) fail(fmt::format("longer than {} bytes", kMostBytes));
  const size_t end = bytes.find('\n');
  if (end == std::string_view::npos || !bytes.starts_with(kFirstWords)) {
    fail("not a file of measured products of this version");
  }
  const std::string_view rest = bytes.substr(end + 1);
  if (bytes.substr(kFirstWords.size(), end - kFirstWords.size()) != digest_of(rest)) {
    fail("damaged: the checksum is wrong");
  }
  const size_t end_of_identity = rest.find('\n');
  if (end_of_identity == std::string_view::npos) fail("there is no table");
  if (rest.substr(0, end_of_identity) != identity) {
    fail(fmt::format("of another device: {}", rest.substr(0, end_of_identity)));
  }
  return kernels::parse_product_table(rest.substr(end_of_identity + 1), where);
}

}  // namespace reprise::api
