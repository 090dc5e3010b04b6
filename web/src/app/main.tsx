// The pages of the server.

import { render } from "preact";
import { followTheme } from "../views/theme";
import "../views/style.css";
import "./style.css";
import { App } from "./app";
import { catchLinks } from "./router";

followTheme();
catchLinks();
const root = document.getElementById("app");
if (root) render(<App />, root);
