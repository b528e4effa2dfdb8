#pragma once

namespace oubli::cli {

class Command;

// `oubli get-data` and `oubli get-runtime`: scripts that are installed with the program, or lie in
// tools/ of the tree that it was built in. They know their own words.
void add_tools(Command& app);

// Where argv[1] is one of these: becomes that script, with the words that follow. Returns if it is
// not; Error{missing} if the script is nowhere.
void become_tool(int argc, char** argv);

}  // namespace oubli::cli
