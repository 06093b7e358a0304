"""An MCP server over the toolsets: the tools, skills and artifacts of one tenant, for any MCP client."""
