#include "oubli/data/samples.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "oubli/base/error.h"
#include "oubli/base/file.h"
#include "oubli/data/preparation.h"
#include "oubli/data/resize.h"

namespace oubli {
namespace {

namespace fs = std::filesystem;

class Samples : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("oubli_samples_" + std::to_string(getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write_pgm(const fs::path& path, std::size_t height, std::size_t width,
                 const std::vector<int>& pixels) {
    fs::create_directories((folder_ / path).parent_path());
    std::string text = "P5\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
    for (const int pixel : pixels) text.push_back(static_cast<char>(pixel));
    write_file(folder_ / path, text);
  }

  fs::path folder_;
};

std::string big_endian(std::uint32_t value) {
  std::string text;
  for (int shift = 24; shift >= 0; shift -= 8) text.push_back(static_cast<char>(value >> shift));
  return text;
}

std::string png_chunk(const std::string& kind, const std::string& data) {
  const std::string body = kind + data;
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big_endian(static_cast<std::uint32_t>(data.size())) + body +
         big_endian(static_cast<std::uint32_t>(crc));
}

// 1 x 2 pixels with transparency: red, then blue.
std::string png() {
  const std::string line{'\0', '\xff', '\0', '\0', '\xff', '\0', '\0', '\xff', '\x80'};
  std::string packed(100, '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(line.data()), line.size());
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         png_chunk("IHDR", big_endian(2) + big_endian(1) + std::string("\x08\x06\0\0\0", 5)) +
         png_chunk("IDAT", packed) + png_chunk("IEND", "");
}

TEST_F(Samples, DecodesImages) {
  write_pgm("a.pgm", 2, 3, {1, 2, 3, 4, 5, 6});
  const Sample pgm = decode_image(folder_ / "a.pgm");
  EXPECT_EQ(pgm.pixels, (std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(pgm.height, 2U);
  write_file(folder_ / "b.png", png());
  const Sample colour = decode_image(folder_ / "b.png");
  EXPECT_EQ(colour.channels, 3U);
  EXPECT_EQ(colour.pixels, (std::vector<std::uint8_t>{255, 0, 0, 0, 0, 255}));
  write_file(folder_ / "c.png", std::string_view("nonsense"));
  EXPECT_THROW((void)decode_image(folder_ / "c.png"), Error);
}

// One pixel by its header, megabytes in its data: nothing but the memory would tell.
TEST_F(Samples, RefusesImagesThatUnpackOutOfProportion) {
  const std::string zeros(std::size_t{40} << 20, '\0');
  std::string packed(compressBound(zeros.size()), '\0');
  uLongf size = packed.size();
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
            reinterpret_cast<const Bytef*>(zeros.data()), zeros.size(), 9);
  packed.resize(size);
  ASSERT_LT(size, std::size_t{50} << 10);
  write_file(folder_ / "bomb.png",
             "\x89PNG\r\n\x1a\n" +
                 png_chunk("IHDR", big_endian(1) + big_endian(1) + std::string("\x08\0\0\0\0", 5)) +
                 png_chunk("IDAT", packed) + png_chunk("IEND", ""));
  EXPECT_THROW((void)decode_image(folder_ / "bomb.png", std::size_t{4} << 20), Error);
}

// What stb_image 2.27 reads or writes out of bounds; fuzzing found each.
TEST_F(Samples, RefusesDamagedJpegTables) {
  const auto segment = [](char marker, const std::string& content) {
    const std::size_t length = content.size() + 2;
    return std::string{'\xFF', marker, static_cast<char>(length / 256),
                       static_cast<char>(length % 256)} +
           content;
  };
  const auto table = [&](char kind, std::size_t codes) {
    std::string counts(16, '\0');
    for (std::size_t i = 8, left = codes; left > 0; ++i) {
      counts[i] = static_cast<char>(std::min<std::size_t>(left, 128));
      left -= std::min<std::size_t>(left, 128);
    }
    return segment('\xC4', kind + counts + std::string(codes, '\0'));
  };
  const std::string start = "\xFF\xD8", end = "\xFF\xD9";
  const std::string quantization = segment('\xDB', '\0' + std::string(64, '\1'));
  const std::string frame = segment('\xC0', std::string("\x08\0\x01\0\x01\x01\x01\x11\0", 9));
  const std::string scan =
      segment('\xDA', std::string("\x01\x01\0\0\x3F\0", 6)) + std::string(8, '\0');
  const auto refusal = [&](const std::string& bytes) -> std::string {
    write_file(folder_ / "a.jpg", bytes);
    try {
      (void)decode_image(folder_ / "a.jpg");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  const std::string head = start + quantization + frame;
  EXPECT_EQ(refusal(head + table('\0', 1) + table('\x10', 1) + scan + end), "") << "sound";
  for (const std::size_t codes : {256U, 257U})
    EXPECT_NE(refusal(head + table('\0', 1) + table('\x10', codes) + scan + end).find("(DHT)"),
              std::string::npos);
  EXPECT_NE(refusal(head + table('\0', 1) + scan + end).find("(no DHT)"), std::string::npos);
  EXPECT_NE(refusal(head + table('\x10', 1) + scan + end).find("(no DHT)"), std::string::npos);
  EXPECT_NE(refusal('\xFF' + head + scan + end).find("damaged"), std::string::npos);
}

TEST_F(Samples, FoldersAreMatchedByNameThenByOrder) {
  for (const char* name : {"cat/1.pgm", "ant/1.pgm", "ant/2.pgm", "bee/x.pgm"})
    write_pgm(name, 1, 1, {9});
  write_file(folder_ / "notes.txt", std::string_view("not a class"));
  const auto source = SampleSource::open(folder_.string());
  EXPECT_EQ(source->size(), 4U);
  EXPECT_EQ(source->read(3).pixels.at(0), 9);
  std::string how;
  using Labels = std::vector<std::uint32_t>;
  EXPECT_EQ(match_labels(*source, 4, std::vector<std::string>{"cat", "bee", "dog", "ant"}, how),
            (Labels{3, 3, 1, 0}));
  EXPECT_EQ(match_labels(*source, 3, {}, how), (Labels{0, 0, 1, 2}));
  EXPECT_NE(how.find("order"), std::string::npos);
  EXPECT_THROW((void)match_labels(*source, 4, {}, how), Error);
  EXPECT_THROW((void)match_labels(*source, 3, std::vector<std::string>{"ant", "bee", "dog"}, how),
               Error);
}

Sample grey(std::size_t height, std::size_t width, std::vector<std::uint8_t> pixels) {
  Sample sample;
  sample.image = true;
  sample.height = height;
  sample.width = width;
  sample.channels = pixels.size() / (height * width);
  sample.pixels = std::move(pixels);
  return sample;
}

std::vector<double> prepared(const PreparationOptions& options, const InputShape& input,
                             const Sample& sample) {
  const Preparation preparation(options, input, sample);
  std::vector<std::byte> bytes(preparation.bytes());
  preparation.write(sample, bytes);
  std::vector<double> values(bytes.size() / size_of(input.dtype));
  decode(input.dtype, bytes, values);
  return values;
}

TEST(Preparation, ScaleMeanStdAndLayout) {
  const Sample colour = grey(1, 2, {10, 20, 30, 40, 50, 60});
  PreparationOptions options{
      .scale = 0.5, .mean = {5, 2, 3}, .standard = {1, 2, 4}, .channels_last = false};
  EXPECT_EQ(prepared(options, {DType::f64, {3, 1, 2}}, colour),
            (std::vector<double>{0, 15, 4, 11.5, 3, 6.75}));
  options.channels_last = true;
  EXPECT_EQ(prepared(options, {DType::f64, {1, 2, 3}}, colour),
            (std::vector<double>{0, 4, 3, 15, 11.5, 6.75}));
  // Integers: as they are, rounded, kept in range.
  const PreparationOptions last{.channels_last = true};
  EXPECT_EQ(prepared(last, {DType::u8, {1, 2, 3}}, colour),
            (std::vector<double>{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(prepared(last, {DType::i8, {1, 2, 3}}, colour),
            (std::vector<double>{-118, -108, -98, -88, -78, -68}));
  EXPECT_EQ(prepared({.scale = 20, .channels_last = true}, {DType::u8, {1, 2, 3}}, colour),
            (std::vector<double>{200, 255, 255, 255, 255, 255}));
  // Grey from colour: 0.299 R + 0.587 G + 0.114 B.
  EXPECT_NEAR(prepared({.scale = 1}, {DType::f64, {1, 2}}, colour).at(0), 2.99 + 11.74 + 3.42,
              1e-12);
  // Colour from grey: three times the same.
  EXPECT_EQ(
      prepared({.scale = 1, .channels_last = false}, {DType::f32, {3, 1, 1}}, grey(1, 1, {7})),
      (std::vector<double>{7, 7, 7}));
}

TEST(Preparation, AsUsedLeavesNothingToDefaults) {
  const Sample colour = grey(1, 2, {10, 20, 30, 40, 50, 60});
  struct Case {
    PreparationOptions options;
    InputShape input;
  };
  for (const auto& [options, input] :
       std::vector<Case>{{{}, {DType::f32, {1, 2}}},
                         {{}, {DType::i8, {3, 5, 4}}},
                         {{.mean = {0.5}, .standard = {0.25}}, {DType::f32, {4, 5, 3}}},
                         {{.channels_last = true}, {DType::f32, {6}}},
                         {{.scale = 0.1, .channels_last = false, .colour = false, .size = {{7, 3}}},
                          {DType::f64, {std::nullopt, std::nullopt, std::nullopt}}}}) {
    const Preparation first(options, input, colour);
    const PreparationOptions used = first.as_used();
    EXPECT_TRUE(used.scale && used.channels_last && used.colour && used.size);
    EXPECT_EQ(used.mean.size(), *used.colour ? 3U : 1U);
    EXPECT_EQ(prepared(used, input, colour), prepared(options, input, colour));
    EXPECT_EQ(Preparation(used, input, colour).as_used(), used);
  }
}

TEST(Preparation, ResizingKeepsWhatItMust) {
  // A constant stays constant; halving is the mean with a triangle's weights; the mean survives.
  const Sample flat = grey(5, 7, std::vector<std::uint8_t>(35, 100));
  for (const float value : resize_image(flat, 3, 11)) EXPECT_NEAR(value, 100, 1e-4);
  const Sample ramp = grey(1, 4, {0, 40, 80, 120});
  const std::vector<float> half = resize_image(ramp, 1, 2);
  // Weights 3/8, 3/8, 1/8 ... normalised by what lies inside: (3*0 + 3*40 + 1*80) / 7
  EXPECT_NEAR(half[0], 200.0 / 7, 1e-4);
  EXPECT_NEAR(half[1], 120 - 200.0 / 7, 1e-4);
  const std::vector<float> same = resize_image(ramp, 1, 4);
  EXPECT_EQ(same, (std::vector<float>{0, 40, 80, 120}));
}

TEST(Preparation, SaysWhatItDidToImages) {
  const auto done = [](const InputShape& input, const Sample& sample) {
    const Preparation made({.scale = 1}, input, sample);
    std::vector<std::byte> out(made.bytes());
    return made.write(sample, out);
  };
  const Sample colour = grey(1, 2, {10, 20, 30, 40, 50, 60}), one = grey(2, 2, {1, 2, 3, 4});
  EXPECT_EQ(done({DType::f32, {2, 2}}, one), ImageChanges{});
  EXPECT_EQ(done({DType::f32, {4, 4}}, one), (ImageChanges{.resized = 1}));
  EXPECT_EQ(done({DType::f32, {4, 2}}, one), (ImageChanges{.resized = 1, .squashed = 1}));
  EXPECT_EQ(done({DType::f32, {1, 2}}, colour), (ImageChanges{.turned_grey = 1}));
  EXPECT_EQ(done({DType::f32, {3, 2, 2}}, one), ImageChanges{});  // grey as three equal channels
  ImageChanges all{.resized = 3, .squashed = 1};
  EXPECT_EQ(describe(all, 4),
            "of 4 images 3 were resized, 1 of them squashed (another ratio of height to width)");
  all += {.resized = 1, .squashed = 0, .turned_grey = 1};
  EXPECT_EQ(
      describe(all, 4),
      "of 4 images 4 were resized, 1 of them squashed (another ratio of height to width), and "
      "1 was turned grey");
  EXPECT_EQ(describe({}, 4), "");
}

TEST(Preparation, AsksWhereTheShapeLeavesAQuestion) {
  const auto message_of = [](const PreparationOptions& options, const InputShape& input,
                             const Sample& sample) {
    try {
      const Preparation preparation(options, input, sample);
      return preparation.describe();
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  const Sample image = grey(2, 2, {1, 2, 3, 4});
  EXPECT_NE(message_of({}, {DType::f32, {3, 8, 3}}, image).find("--layout"), std::string::npos);
  EXPECT_NE(message_of({}, {DType::f32, {3, std::nullopt, std::nullopt}}, image).find("--size"),
            std::string::npos);
  EXPECT_NE(message_of({}, {DType::f32, {5}}, image).find("--size"), std::string::npos);
  EXPECT_EQ(message_of({}, {DType::f32, {4}}, image), "2 x 2 grey, pixels x 0.00392157");
  EXPECT_NE(message_of({.mean = {1, 2}}, {DType::f32, {1, 2, 2}}, image).find("--mean"),
            std::string::npos);
}

}  // namespace
}  // namespace oubli
