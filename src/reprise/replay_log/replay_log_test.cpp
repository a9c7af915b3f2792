#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>

#include "reprise/base/error.h"
#include "reprise/replay_log/compare_records.h"
#include "reprise/replay_log/log_reader.h"
#include "reprise/replay_log/log_writer.h"
#include "reprise/replay_log/params_json.h"
#include "reprise/replay_log/record_line.h"

namespace reprise::replay_log {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "reprise-replay-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  ~TestFolder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::filesystem::path file() const { return path_ / "answers.log"; }

 private:
  std::filesystem::path path_;
};

/// Parameters none of which has its default value.
sampling::SamplingParams other_params() {
  return {.temperature = 0.7F,
          .top_p = 0.9F,
          .top_k = 40,
          .min_p = 0.05F,
          .seed = -7,
          .repetition_penalty = 1.1F,
          .presence_penalty = 0.3F,
          .frequency_penalty = -0.2F,
          .max_tokens = std::nullopt,
          .min_tokens = 3,
          .stop = {"end", "\n\xF0\x9F\x98\x80"},
          .stop_token_ids = {5, 6},
          .ignore_eos = true,
          .include_stop_str_in_output = true,
          .skip_special_tokens = false,
          .logprobs = 2,
          .prompt_logprobs = 1,
          .logprob_token_ids = {9},
          .logit_bias = {{4, -1.5F}},
          .allowed_token_ids = {1, 2, 3},
          .bad_words = {"bad"},
          .bad_words_token_ids = {{7, 8}, {9}}};
}

RequestRecord full_record() {
  return {.engine = "0123456789abcdef",
          .id = "cmpl-1",
          .number = 12,
          .prompt_token_ids = {1, 2, 3},
          .params = other_params(),
          .adapter = RequestRecord::Adapter{.name = "a", .folder = "/a", .digest = 77},
          .constraint =
              structured_output::ConstraintSource{
                  .spec = {.kind = structured_output::OutputSpec::Kind::choice,
                           .choices = {"yes", "no"},
                           .any_whitespace = false},
                  .reasoning =
                      structured_output::ReasoningDelimiters{
                          .start = 4, .end = 5, .begins_inside = true}},
          .second_text_begin = 2,
          .num_cached_tokens = 2,
          .num_preemptions = 1,
          .finish_reason = "stop",
          .token_ids = {10, 11},
          .digests = {0xFFFFFFFFFFFFFFFF, 1},
          .vector_digest = 3};
}

RequestRecord small_record(const std::string& id) {
  return {.id = id, .finish_reason = "length", .token_ids = {1, 2}, .digests = {8, 9}};
}

/// Collects the messages of a writer.
struct Told {
  std::mutex mutex;
  std::vector<std::string> lines;

  std::function<void(std::string_view)> log() {
    return [this](std::string_view line) {
      const std::lock_guard lock(mutex);
      lines.emplace_back(line);
    };
  }
};

std::unique_ptr<LogWriter> open_writer(const std::filesystem::path& path, Told& told) {
  return std::make_unique<LogWriter>(
      open_log(path),
      LogWriterOptions{.path = path,
                       .describe_engine = [] { return Json{{"version", "test"}}; },
                       .log = told.log()});
}

std::vector<std::string> ids_of(const LogContent& log) {
  std::vector<std::string> ids;
  for (const RequestRecord& request : log.requests) ids.push_back(request.id);
  return ids;
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

void append_text(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::app) << text;
}

TEST(ReplayLog, keeps_every_member_of_a_record) {
  const RequestRecord record = full_record();
  EXPECT_EQ(read_request_record(read_record_line(
                record_line(to_json(record)).substr(0, record_line(to_json(record)).size() - 1))),
            record);
  const RequestRecord bare = small_record("x");
  EXPECT_EQ(read_request_record(to_json(bare)), bare);
  RequestRecord unknown = bare;
  unknown.has_unknown_constraint = true;
  EXPECT_EQ(read_request_record(to_json(unknown)), unknown);
}

TEST(ReplayLog, keeps_the_bits_of_every_float_parameter) {
  std::mt19937 random(1);
  for (int i = 0; i < 1000; ++i) {
    sampling::SamplingParams params;
    params.temperature = std::uniform_real_distribution<float>(0, 2)(random);
    params.top_p = std::uniform_real_distribution<float>(0, 1)(random);
    params.logit_bias = {{i, std::uniform_real_distribution<float>(-100, 100)(random)}};
    const Json json = parse_json(params_to_json(params).dump(), "test");
    ASSERT_EQ(params_from_json(json), params);
  }
}

TEST(ReplayLog, writes_only_parameters_that_differ_from_the_default) {
  EXPECT_EQ(params_to_json({}).dump(), "{}");
  EXPECT_EQ(params_to_json({.top_k = 3}).dump(), R"({"top_k":3})");
}

TEST(ReplayLog, refuses_a_parameter_that_it_does_not_know) {
  EXPECT_THROW((void)params_from_json({{"warmth", 1}}), InvalidArgument);
}

TEST(ReplayLog, needs_at_most_64_bytes_a_token) {
  RequestRecord record = full_record();
  record.engine = "0123456789abcdef";
  for (int i = 0; i < 4000; ++i) {
    record.prompt_token_ids.push_back(150'000 + i);
    record.token_ids.push_back(150'000 + i);
    record.digests.push_back(0xFEDCBA9876543210);
  }
  const size_t num_tokens = record.prompt_token_ids.size() + record.token_ids.size();
  EXPECT_LE(record_line(to_json(record)).size(), 64 * num_tokens);
  EXPECT_LE(record_line(to_json(record)).size(), 32 * record.token_ids.size());
}

TEST(ReplayLog, sees_every_changed_byte_and_every_cut) {
  const std::string line = record_line(to_json(small_record("x")));
  const std::string text = line.substr(0, line.size() - 1);
  (void)read_record_line(text);
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_THROW((void)read_record_line(text.substr(0, i)), InvalidArgument) << i;
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THROW((void)read_record_line(changed), InvalidArgument) << i;
  }
}

TEST(ReplayLog, only_the_owner_can_read_a_new_file) {
  const TestFolder folder;
  Told told;
  open_writer(folder.file(), told).reset();
  struct stat status{};
  ASSERT_EQ(::stat(folder.file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600);
  EXPECT_EQ(privacy_warning(folder.file()), "");
  ::chmod(folder.file().c_str(), 0644);
  EXPECT_THAT(privacy_warning(folder.file()), HasSubstr("chmod 600"));
}

TEST(ReplayLog, appends_to_a_file_with_a_half_written_line) {
  const TestFolder folder;
  Told told;
  {
    const auto writer = open_writer(folder.file(), told);
    writer->append(small_record("a"));
  }
  const std::string whole = text_of(folder.file());
  append_text(folder.file(), whole.substr(0, 40));  // a crash in the middle
  {
    const auto writer = open_writer(folder.file(), told);
    writer->append(small_record("b"));
    writer->append(small_record("c"));
  }
  const LogContent log = read_log(folder.file());
  EXPECT_THAT(ids_of(log), ElementsAre("a", "b", "c"));
  EXPECT_THAT(log.engines, SizeIs(2));
  EXPECT_NE(log.requests[0].engine, log.requests[1].engine);
  ASSERT_THAT(log.problems, SizeIs(1));
  EXPECT_THAT(log.problems[0], HasSubstr("line 3 is left out"));
  EXPECT_THAT(told.lines, IsEmpty());
}

TEST(ReplayLog, leaves_out_damaged_lines_and_answers_of_a_lost_engine) {
  const TestFolder folder;
  Told told;
  {
    const auto writer = open_writer(folder.file(), told);
    for (const char* id : {"a", "b", "c"}) writer->append(small_record(id));
  }
  std::string text = text_of(folder.file());
  const size_t of_b = text.find(R"("id":"b")");
  std::string damaged = text;
  damaged[of_b + 6] = 'x';
  damaged += "not a record\n\n";
  std::ofstream(folder.file()) << damaged;
  const LogContent log = read_log(folder.file());
  EXPECT_THAT(ids_of(log), ElementsAre("a", "c"));
  EXPECT_THAT(log.problems, SizeIs(2));
  // Without the line that describes the engine, no answer can be repeated.
  Told other;
  open_writer(folder.file(), other).reset();  // another engine, so that there is one
  text = text_of(folder.file());
  std::ofstream(folder.file()) << text.substr(text.find('\n') + 1);
  const LogContent orphans = read_log(folder.file());
  EXPECT_THAT(orphans.requests, IsEmpty());
  EXPECT_THAT(orphans.problems.back(), HasSubstr("request c is left out: the line of its engine"));
}

TEST(ReplayLog, says_what_is_wrong_with_a_file) {
  const TestFolder folder;
  EXPECT_THROW((void)read_log(folder.file()), FileError);                // none
  EXPECT_THROW((void)read_log(folder.file().parent_path()), FileError);  // a folder
  std::ofstream(folder.file()) << "hello\n";
  EXPECT_THROW((void)read_log(folder.file()), FileError);
  EXPECT_THROW((void)open_log(folder.file().parent_path()), InvalidArgument);
  EXPECT_THROW((void)open_log(folder.file() / "below"), InvalidArgument);
  ASSERT_EQ(::mkfifo((folder.file().string() + ".pipe").c_str(), 0600), 0);
  EXPECT_THROW((void)open_log(folder.file().string() + ".pipe"), InvalidArgument);
}

TEST(ReplayLog, a_full_disk_costs_records_and_one_line) {
  Told told;
  auto writer = open_writer("/dev/full", told);
  for (int i = 0; i < 5; ++i) writer->append(small_record("x"));
  while (writer->counts().num_dropped < 5) std::this_thread::yield();
  EXPECT_EQ(writer->counts().num_written, 0);
  EXPECT_EQ(writer->counts().num_bytes, 0);
  writer.reset();
  ASSERT_THAT(told.lines, SizeIs(1));
  EXPECT_THAT(told.lines[0], HasSubstr("cannot be written: No space left on device"));
}

// The limit of this process on the size of a file makes writes fail in the middle of a line.
TEST(ReplayLog, goes_on_behind_a_half_written_line_when_there_is_room_again) {
  const TestFolder folder;
  Told told;
  const auto writer = open_writer(folder.file(), told);
  writer->append(small_record("a"));
  while (writer->counts().num_written < 1) std::this_thread::yield();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  const rlimit tight = {.rlim_cur = std::filesystem::file_size(folder.file()) + 20,
                        .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  writer->append(small_record("b"));
  writer->append(small_record("c"));
  while (writer->counts().num_dropped < 2) std::this_thread::yield();
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  writer->append(small_record("d"));
  while (writer->counts().num_written < 2) std::this_thread::yield();
  const LogContent log = read_log(folder.file());
  EXPECT_THAT(ids_of(log), ElementsAre("a", "d"));
  EXPECT_THAT(log.problems, SizeIs(1));
  ASSERT_THAT(told.lines, SizeIs(2));
  EXPECT_THAT(told.lines[1], HasSubstr("can be written again; 2 answers are missing"));
}

TEST(ReplayLog, drops_records_instead_of_memory_when_the_disk_is_slow) {
  const TestFolder folder;
  Told told;
  std::mutex disk;  // describe_engine waits for this, like for a disk that does not answer
  disk.lock();
  auto writer = std::make_unique<LogWriter>(open_log(folder.file()),
                                            LogWriterOptions{.path = folder.file(),
                                                             .describe_engine =
                                                                 [&disk] {
                                                                   const std::lock_guard lock(disk);
                                                                   return Json::object();
                                                                 },
                                                             .log = told.log(),
                                                             .max_waiting_bytes = 4000});
  for (int i = 0; i < 100; ++i) writer->append(small_record(std::to_string(i)));
  const uint64_t num_dropped = writer->counts().num_dropped;
  EXPECT_GT(num_dropped, 0);
  EXPECT_LT(num_dropped, 100);
  disk.unlock();
  writer.reset();
  const LogContent log = read_log(folder.file());
  EXPECT_EQ(log.requests.size(), 100 - num_dropped);
  EXPECT_EQ(log.requests.front().id, "0");
  ASSERT_THAT(told.lines, SizeIs(1));
  EXPECT_THAT(told.lines[0], HasSubstr("too slow"));
}

TEST(ReplayLog, an_exception_ends_the_log_and_not_the_engine) {
  const TestFolder folder;
  Told told;
  const auto fail = []() -> Json { throw std::runtime_error("no memory"); };
  LogWriter writer(
      open_log(folder.file()),
      LogWriterOptions{.path = folder.file(), .describe_engine = fail, .log = told.log()});
  for (int i = 0; i < 3; ++i) writer.append(small_record("x"));
  while (writer.counts().num_dropped < 3) std::this_thread::yield();
  const std::lock_guard lock(told.mutex);
  ASSERT_THAT(told.lines, SizeIs(1));
  EXPECT_THAT(told.lines[0], HasSubstr("has ended: no memory"));
}

TEST(ReplayLog, finds_the_first_difference) {
  using Kind = AnswerDifference::Kind;
  const RequestRecord logged = {
      .finish_reason = "stop", .token_ids = {1, 2, 3}, .digests = {7, 8, 9}};
  EXPECT_EQ(find_difference(logged, logged), std::nullopt);
  RequestRecord other = logged;
  other.token_ids[1] = 5;
  other.digests[2] = 5;
  EXPECT_EQ(find_difference(logged, other), (AnswerDifference{.kind = Kind::token, .position = 1}));
  EXPECT_EQ(describe(*find_difference(logged, other), logged, other),
            "token 2 of 3: logged 2, replayed 5");
  other = logged;
  other.digests[2] = 5;
  EXPECT_EQ(find_difference(logged, other),
            (AnswerDifference{.kind = Kind::logits, .position = 2}));
  EXPECT_THAT(describe(*find_difference(logged, other), logged, other),
              HasSubstr("digest 0000000000000009, now 0000000000000005"));
  other.digests[2] = 0;  // sampled on a device
  EXPECT_EQ(find_difference(logged, other), std::nullopt);
  other = logged;
  other.token_ids.pop_back();
  other.digests.pop_back();
  EXPECT_EQ(find_difference(logged, other),
            (AnswerDifference{.kind = Kind::length, .position = 2}));
  other = logged;
  other.finish_reason = "length";
  EXPECT_EQ(find_difference(logged, other),
            (AnswerDifference{.kind = Kind::finish, .position = 3}));
  RequestRecord aborted = logged;
  aborted.finish_reason = "abort";
  EXPECT_EQ(find_difference(aborted, other), std::nullopt);
  other = logged;
  other.vector_digest = 4;
  EXPECT_EQ(find_difference(logged, other), (AnswerDifference{.kind = Kind::vector}));
}

}  // namespace
}  // namespace reprise::replay_log
