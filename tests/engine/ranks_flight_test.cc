// Tests of the file in which a rank writes what it has called: what others read there, also while it is written and
// when it is damaged.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "locus/engine/ranks/flight.h"
#include "tests/engine/ranks_folder.h"

namespace locus::engine::ranks {
namespace {

struct FlightTest : testing::Test {
  Folder folder;
  std::string path = flight_path(folder.path(), "job", ::getpid());
  std::unique_ptr<Flight> own = Flight::create(path, ::getpid(), 3, 8);
  std::unique_ptr<Flight> read = Flight::open(path);
};

TEST_F(FlightTest, OthersReadWhatWasWritten) {
  Call call = collective(5);
  call.members = {1, 3};
  call.callers = {{"/p/main.py", 3, 0, 3, 9, "main", ""}};
  call.feed = Feed{2, 5, 40, "RandomSampler", {Location()}};
  call.feed->taken[0].file = "train.py", call.feed->taken[0].line = 7;
  own->write(call);
  ASSERT_NE(read, nullptr);
  EXPECT_EQ(read->rank(), 3);
  EXPECT_EQ(read->world(), 8);
  EXPECT_EQ(read->pid(), ::getpid());
  EXPECT_EQ(read->read(call.key(), 5), call);
  EXPECT_FALSE(read->read(call.key(), 4));
  EXPECT_FALSE(read->read(key_of("1"), 5));
  EXPECT_TRUE(read->has_come(call.key(), 5));
  EXPECT_TRUE(read->has_come(call.key(), 1));
  EXPECT_FALSE(read->has_come(call.key(), 6));
  EXPECT_FALSE(read->has_come(key_of("1"), 1));
}

TEST_F(FlightTest, OnlyItsOwnerCanReadIt) {
  struct stat found = {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600u);
  EXPECT_EQ(static_cast<std::size_t>(found.st_size), Flight::kFileBytes);
}

TEST_F(FlightTest, OldCallsMakeRoomAndAreKnownToHaveBeenMade) {
  for (Number number = 1; number <= Flight::kSlots + 10; ++number) own->write(collective(number));
  const Key key = key_of("0");
  EXPECT_FALSE(read->read(key, 1));
  EXPECT_TRUE(read->read(key, Flight::kSlots + 10));
  EXPECT_TRUE(read->has_come(key, 1));
  EXPECT_EQ(read->last(), (std::map<Key, Number>{{key, Flight::kSlots + 10}}));
}

TEST_F(FlightTest, TheHighestNumberStaysWhereThreadsComeInAnyOrder) {
  own->write(collective(5)), own->write(collective(4));
  EXPECT_TRUE(read->has_come(key_of("0"), 5));
}

TEST_F(FlightTest, NobodyIsSaidNotToHaveComeWhereThereAreTooManyGroups) {
  for (std::size_t group = 0; group < Flight::kGroups; ++group) own->write(collective(1, "g" + std::to_string(group)));
  EXPECT_EQ(read->last().size(), Flight::kGroups);
  own->write(collective(1, "one more"));
  EXPECT_TRUE(read->has_come(key_of("one more"), 1));
  EXPECT_TRUE(read->has_come(key_of("another"), 1));
}

TEST_F(FlightTest, ACallWithALongPlaceIsStillCompared) {
  Call call = collective(1);
  call.place.file = "/" + std::string(3000, 'd') + "/train.py";
  own->write(call);
  const std::optional<Call> seen = read->read(call.key(), 1);
  ASSERT_TRUE(seen);
  EXPECT_TRUE(fit(call, *seen));
  EXPECT_EQ(seen->place.line, 0);
}

TEST_F(FlightTest, AGroupOfThousandsIsWrittenWithoutItsMembers) {
  Call call = collective(1);
  for (int rank = 0; rank < 5000; ++rank) call.members.push_back(rank);
  own->write(call);
  const std::optional<Call> seen = read->read(call.key(), 1);
  ASSERT_TRUE(seen);
  EXPECT_TRUE(seen->members.empty());
  EXPECT_EQ(seen->place, call.place);
}

TEST_F(FlightTest, NamesInAnyLanguageComeThrough) {
  Call call = collective(1);
  call.place.file = "/päth/\xE8\xA8\x93.py", call.place.function =
                                                 "lam\xFF"
                                                 "da";  // the latter is no UTF-8
  own->write(call);
  const std::optional<Call> seen = read->read(call.key(), 1);
  ASSERT_TRUE(seen);
  EXPECT_EQ(seen->place.file, call.place.file);
}

TEST_F(FlightTest, SaysWhatItWaitsFor) {
  EXPECT_EQ(read->status().waiting.since, 0);
  own->set_status({Flight::State::kRunning, {12.5, 7, 9}});
  EXPECT_EQ(read->status().waiting.since, 12.5);
  EXPECT_EQ(read->status().waiting.key, 7u);
  EXPECT_EQ(read->status().waiting.number, 9u);
  own->set_status({Flight::State::kEnded, {}});
  EXPECT_EQ(read->status().state, Flight::State::kEnded);
}

TEST_F(FlightTest, AReaderNeverSeesHalfACall) {
  std::atomic<bool> done = false;
  std::thread writer([&] {
    for (int round = 0; round < 2'000; ++round) {
      Call call = collective(1 + Flight::kSlots * static_cast<Number>(round % 3));  // one slot for all three
      call.shape.assign(static_cast<std::size_t>(round % 40), round), call.elements = call.root = round;
      own->write(call);
      own->set_status({Flight::State::kRunning, {static_cast<double>(round), Key(round), Number(round)}});
    }
    done = true;
  });
  while (!done) {
    for (Number number : {1, 1 + int(Flight::kSlots), 1 + 2 * int(Flight::kSlots)}) {
      if (const std::optional<Call> call = read->read(key_of("0"), number)) {
        EXPECT_EQ(call->elements, call->root);
        EXPECT_EQ(call->shape, std::vector<std::int64_t>(static_cast<std::size_t>(call->root % 40), call->root));
        EXPECT_EQ(number / Flight::kSlots, static_cast<Number>(call->root % 3));
      }
    }
    const Flight::Waiting waiting = read->status().waiting;
    EXPECT_EQ(waiting.since, static_cast<double>(waiting.key));
    EXPECT_EQ(waiting.key, waiting.number);
  }
  writer.join();
}

TEST_F(FlightTest, ADamagedFileIsReadWithoutHarmAndTellsNothingWrong) {
  for (Number number = 1; number <= 200; ++number) own->write(collective(number));
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  std::mt19937 random(11);
  const std::string damaged = folder.path() + "/damaged.1.calls";
  int lost = 0;
  for (int round = 0; round < 60; ++round) {
    std::string bytes = whole;
    for (int hit = 0; hit < 3'000; ++hit) bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.replace(0, 64, whole, 0, 64);  // else it would not be opened at all
    std::ofstream(damaged, std::ios::binary | std::ios::trunc) << bytes;
    const auto flight = Flight::open(damaged);
    ASSERT_NE(flight, nullptr);
    flight->status(), flight->last();
    for (Number number = 1; number <= 200; ++number) {
      flight->has_come(key_of("0"), number);
      const std::optional<Call> call = flight->read(key_of("0"), number);
      EXPECT_EQ(call.value_or(collective(number)), collective(number));
      lost += !call;
    }
  }
  EXPECT_GT(lost, 0);
}

TEST_F(FlightTest, WhatIsNoFlightIsNotOpened) {
  const std::string other = folder.path() + "/other.1.calls";
  EXPECT_EQ(Flight::open(other), nullptr);
  std::mt19937 random(12);
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, Flight::kFileBytes - 1, Flight::kFileBytes}) {
    std::string bytes(size, '\0');
    for (int zeros = 0; zeros < 2; ++zeros) {
      std::ofstream(other, std::ios::binary | std::ios::trunc) << bytes;
      EXPECT_EQ(Flight::open(other), nullptr) << size;
      for (char& byte : bytes) byte = static_cast<char>(random());
    }
  }
  std::filesystem::remove(other);
  std::filesystem::create_symlink(path, other);
  EXPECT_EQ(Flight::open(other), nullptr);
  std::filesystem::remove(other);
  std::filesystem::create_directory(other);
  EXPECT_EQ(Flight::open(other), nullptr);
}

TEST_F(FlightTest, NoFileIsWrittenOver) {
  std::filesystem::create_symlink(folder.path() + "/elsewhere", folder.path() + "/new.1.calls~");
  EXPECT_THROW(Flight::create(folder.path() + "/new.1.calls", 1, 0, 2), std::system_error);
  EXPECT_THROW(Flight::create(folder.path() + "/no/such.1.calls", 1, 0, 2), std::system_error);
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/elsewhere"));
}

TEST_F(FlightTest, JobsAreFoundByTheirNames) {
  Flight::create(flight_path(folder.path(), "a.b", 7), 7, 0, 2);
  Flight::create(flight_path(folder.path(), "a.b", 8), 8, 1, 2);
  std::ofstream(folder.path() + "/9.json") << "{}";
  EXPECT_EQ(jobs_in(folder.path()), (std::vector<std::string>{"a.b", "job"}));
  EXPECT_EQ(flights_in(folder.path(), "a.b").size(), 2u);
  EXPECT_EQ(flights_in(folder.path(), "a").size(), 0u);
  EXPECT_TRUE(jobs_in(folder.path() + "/none").empty());
}

TEST(ProcessState, TellsTheLivingFromTheStoppedAndTheDead) {
  EXPECT_EQ(process_state(::getpid()), 'R');
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  ::kill(child, SIGSTOP);
  ::waitpid(child, nullptr, WUNTRACED);
  EXPECT_EQ(process_state(child), kStopped);
  ::kill(child, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  EXPECT_EQ(process_state(child), kZombie);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(process_state(child), kGone);
}

}  // namespace
}  // namespace locus::engine::ranks
