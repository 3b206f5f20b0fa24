// Rings of one process, turned by hand.
#include <gtest/gtest.h>

#include <unistd.h>

#include <memory>

#include "watch/watchdog.h"

namespace syncopate {
namespace {

struct Rings {
  explicit Rings(int size) : received(size) {
    std::vector<Doorbell> bells;
    for (int rank = 0; rank < size; ++rank) {
      bells.push_back(make_doorbell(true));
      cards.push_back(bells.back().card);
    }
    for (int rank = 0; rank < size; ++rank)
      rings.push_back(
          std::make_unique<WatchRing>(rank, cards, bells[rank].listener));
  }

  void turn(int times = 50) {
    for (int i = 0; i < times; ++i, usleep(2000))
      for (size_t rank = 0; rank < rings.size(); ++rank)
        if (rings[rank] != nullptr)
          rings[rank]->turn(0, [&](int, const Note& note) {
            received[rank].push_back(note);
          });
  }

  std::vector<RankCard> cards;
  std::vector<std::unique_ptr<WatchRing>> rings;
  std::vector<std::vector<Note>> received;
};

Note question(const std::string& text) {
  Note note;
  note.kind = NoteKind::kQuestion;
  note.text = text;
  return note;
}

TEST(WatchRing, ReachesEveryoneOnce) {
  for (const int size : {2, 3, 5}) {
    Rings all(size);
    all.turn();
    for (const auto& ring : all.rings)
      for (const WatchRing::Neighbour& neighbour : ring->neighbours())
        EXPECT_TRUE(neighbour.is_up) << size;
    all.rings[1]->send_round(question("where are you?"));
    all.rings[1]->send_round(question("and now?"));
    all.turn();
    for (int rank = 0; rank < size; ++rank) {
      ASSERT_EQ(all.received[rank].size(), rank == 1 ? 0 : 2) << size;
      if (rank == 1) continue;
      EXPECT_EQ(all.received[rank][0].text, "where are you?");
      EXPECT_EQ(all.received[rank][0].origin, 1);
    }
  }
}

TEST(WatchRing, GoesTheOtherWayRoundAGap) {
  Rings all(5);
  all.turn();
  all.rings[2].reset();
  all.turn();
  EXPECT_FALSE(all.rings[1]->neighbours()[1].is_up);
  EXPECT_TRUE(all.rings[1]->neighbours()[1].was_up);
  EXPECT_FALSE(all.rings[3]->neighbours()[0].is_up);
  all.rings[1]->send_round(question("who is left?"));
  all.turn();
  for (const int rank : {0, 3, 4}) EXPECT_EQ(all.received[rank].size(), 1);
}

TEST(WatchRing, ACallerWithoutTheTokenIsDropped) {
  Rings all(3);
  Connection stranger(all.cards[1].addresses[0], all.cards[1].port);
  Note hello;
  hello.kind = NoteKind::kHello;
  hello.origin = 0;  // says it is rank 0
  hello.token = {1, 2};
  stranger.put(hello);
  for (int i = 0; i < 100 && stranger.is_open(); ++i) {
    stranger.exchange();
    all.rings[1]->turn(0.002, [](int, const Note&) { FAIL(); });
  }
  EXPECT_FALSE(stranger.is_open());
  EXPECT_FALSE(all.rings[1]->neighbours()[0].was_up);
  all.turn();  // the right one is let in
  EXPECT_TRUE(all.rings[1]->neighbours()[0].is_up);
}

TEST(WatchRing, ACallerThatHungUpBeforeItWasHeardIsNotDead) {
  Rings all(3);
  {
    Connection earlier(all.cards[1].addresses[0], all.cards[1].port);
    Note hello;
    hello.kind = NoteKind::kHello;
    hello.origin = 0;
    hello.token = all.cards[0].token;
    earlier.put(hello);
    for (int i = 0; i < 50 && earlier.has_output(); ++i, usleep(1000))
      earlier.exchange();
    ASSERT_FALSE(earlier.has_output());
  }
  for (int i = 0; i < 20; ++i, usleep(1000))
    all.rings[1]->turn(0, [](int, const Note&) { FAIL(); });
  EXPECT_FALSE(all.rings[1]->neighbours()[0].was_up);
  all.turn();  // it calls again
  EXPECT_TRUE(all.rings[1]->neighbours()[0].is_up);
}

TEST(WatchRing, TellsAGoodbyeFromADeath) {
  Rings all(3);
  all.turn();
  Note goodbye;
  goodbye.kind = NoteKind::kGoodbye;
  all.rings[2]->send_to_neighbours(goodbye);
  all.rings[2]->flush(1);
  all.rings[2].reset();
  all.turn();
  EXPECT_TRUE(all.rings[1]->neighbours()[1].has_said_goodbye);
  EXPECT_FALSE(all.rings[1]->neighbours()[1].is_up);
  EXPECT_FALSE(all.rings[1]->neighbours()[0].has_said_goodbye);
}

TEST(Note, SurvivesItsWay) {
  Note note = question("text");
  note.origin = 3;
  note.state.step = 120;
  note.state.stage = Stage::kCheckpoint;
  const std::string whole = encode(note) + encode(question("second"));
  std::string bytes;
  bool is_broken = false;
  std::vector<Note> taken;
  for (const char c : whole) {  // in as many pieces as there are bytes
    bytes += c;
    if (auto one = take_note(bytes, is_broken)) taken.push_back(*one);
  }
  ASSERT_EQ(taken.size(), 2);
  EXPECT_FALSE(is_broken);
  EXPECT_EQ(taken[0].text, "text");
  EXPECT_EQ(taken[0].state.step, 120);
  EXPECT_EQ(taken[0].state.stage, Stage::kCheckpoint);
  EXPECT_EQ(taken[1].text, "second");
  std::string noise(4096, '\xee');
  EXPECT_FALSE(take_note(noise, is_broken));
  EXPECT_TRUE(is_broken);
}

}  // namespace
}  // namespace syncopate
